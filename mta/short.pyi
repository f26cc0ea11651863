"""The short forms as types: what each takes beyond this is in its docstring and in ``mta.agg``."""

from typing import Any, Protocol

__all__ = [
    "rolling_count",
    "rolling_count_by",
    "rolling_sum",
    "rolling_sum_by",
    "rolling_mean",
    "rolling_mean_by",
    "rolling_min",
    "rolling_min_by",
    "rolling_max",
    "rolling_max_by",
    "rolling_any",
    "rolling_any_by",
    "rolling_all",
    "rolling_all_by",
    "rolling_var",
    "rolling_var_by",
    "rolling_std",
    "rolling_std_by",
    "rolling_skew",
    "rolling_skew_by",
    "rolling_kurt",
    "rolling_kurt_by",
    "rolling_product",
    "rolling_product_by",
    "rolling_geometric_mean",
    "rolling_geometric_mean_by",
    "rolling_weighted_mean",
    "rolling_weighted_mean_by",
    "rolling_cov",
    "rolling_cov_by",
    "rolling_corr",
    "rolling_corr_by",
    "rolling_slope",
    "rolling_slope_by",
    "rolling_longest_run",
    "rolling_longest_run_by",
    "rolling_first",
    "rolling_first_by",
    "rolling_last",
    "rolling_last_by",
    "rolling_arg_min",
    "rolling_arg_min_by",
    "rolling_arg_max",
    "rolling_arg_max_by",
    "rolling_quantile",
    "rolling_quantile_by",
    "rolling_median",
    "rolling_median_by",
    "rolling_top_k",
    "rolling_top_k_by",
    "rolling_count_distinct",
    "rolling_count_distinct_by",
    "rolling_mode",
    "rolling_mode_by",
    "rolling_most_common",
    "rolling_most_common_by",
    "rolling_list",
    "rolling_list_by",
    "rolling_approx_quantile",
    "rolling_approx_quantile_by",
    "rolling_approx_count_distinct",
    "rolling_approx_count_distinct_by",
    "rolling_approx_top_k",
    "rolling_approx_top_k_by",
    "rolling_kll_sketch",
    "rolling_kll_sketch_by",
    "rolling_hll_sketch",
    "rolling_hll_sketch_by",
    "rolling_theta_sketch",
    "rolling_theta_sketch_by",
    "rolling_frequent_items_sketch",
    "rolling_frequent_items_sketch_by",
]

class _OverRows(Protocol):
    def __call__(
        self,
        column: Any,
        window: int,
        *,
        min_periods: int | None = None,
        closed: str = "right",
        lag: Any = None,
        **options: Any,
    ) -> Any: ...

class _OverTime(Protocol):
    def __call__(
        self,
        column: Any,
        by: Any,
        range: Any,
        *,
        min_periods: int | None = None,
        closed: str = "right",
        lag: Any = None,
        ties: str = "peers",
        **options: Any,
    ) -> Any: ...

class _PairOverRows(Protocol):
    def __call__(
        self,
        column: Any,
        other: Any,
        window: int,
        *,
        min_periods: int | None = None,
        closed: str = "right",
        lag: Any = None,
        **options: Any,
    ) -> Any: ...

class _PairOverTime(Protocol):
    def __call__(
        self,
        column: Any,
        other: Any,
        by: Any,
        range: Any,
        *,
        min_periods: int | None = None,
        closed: str = "right",
        lag: Any = None,
        ties: str = "peers",
        **options: Any,
    ) -> Any: ...

rolling_count: _OverRows
rolling_count_by: _OverTime
rolling_sum: _OverRows
rolling_sum_by: _OverTime
rolling_mean: _OverRows
rolling_mean_by: _OverTime
rolling_min: _OverRows
rolling_min_by: _OverTime
rolling_max: _OverRows
rolling_max_by: _OverTime
rolling_any: _OverRows
rolling_any_by: _OverTime
rolling_all: _OverRows
rolling_all_by: _OverTime
rolling_var: _OverRows
rolling_var_by: _OverTime
rolling_std: _OverRows
rolling_std_by: _OverTime
rolling_skew: _OverRows
rolling_skew_by: _OverTime
rolling_kurt: _OverRows
rolling_kurt_by: _OverTime
rolling_product: _OverRows
rolling_product_by: _OverTime
rolling_geometric_mean: _OverRows
rolling_geometric_mean_by: _OverTime
rolling_weighted_mean: _PairOverRows
rolling_weighted_mean_by: _PairOverTime
rolling_cov: _PairOverRows
rolling_cov_by: _PairOverTime
rolling_corr: _PairOverRows
rolling_corr_by: _PairOverTime
rolling_slope: _PairOverRows
rolling_slope_by: _PairOverTime
rolling_longest_run: _OverRows
rolling_longest_run_by: _OverTime
rolling_first: _OverRows
rolling_first_by: _OverTime
rolling_last: _OverRows
rolling_last_by: _OverTime
rolling_arg_min: _OverRows
rolling_arg_min_by: _OverTime
rolling_arg_max: _OverRows
rolling_arg_max_by: _OverTime
rolling_quantile: _OverRows
rolling_quantile_by: _OverTime
rolling_median: _OverRows
rolling_median_by: _OverTime
rolling_top_k: _OverRows
rolling_top_k_by: _OverTime
rolling_count_distinct: _OverRows
rolling_count_distinct_by: _OverTime
rolling_mode: _OverRows
rolling_mode_by: _OverTime
rolling_most_common: _OverRows
rolling_most_common_by: _OverTime
rolling_list: _OverRows
rolling_list_by: _OverTime
rolling_approx_quantile: _OverRows
rolling_approx_quantile_by: _OverTime
rolling_approx_count_distinct: _OverRows
rolling_approx_count_distinct_by: _OverTime
rolling_approx_top_k: _OverRows
rolling_approx_top_k_by: _OverTime
rolling_kll_sketch: _OverRows
rolling_kll_sketch_by: _OverTime
rolling_hll_sketch: _OverRows
rolling_hll_sketch_by: _OverTime
rolling_theta_sketch: _OverRows
rolling_theta_sketch_by: _OverTime
rolling_frequent_items_sketch: _OverRows
rolling_frequent_items_sketch_by: _OverTime
