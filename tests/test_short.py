"""Short forms: each is ``rolling(...).agg(...)`` of single columns, whatever they come in."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mta
from mta import agg, short
from mta.errors import DataError, SpecError
from mta.functions import FUNCTIONS

X = np.array([3.0, np.nan, 2.5, 7.0, 0.5, 2.5, 4.0])
Y = np.array([1.0, 2.0, 4.0, 8.0, 7.0, 5.0, 2.0])
DAYS = np.array([4, 1, 2, 9, 7, 6, 5], "M8[D]")
OPTIONS = {"quantile": {"q": 0.3}, "top_k": {"k": 2}, "most_common": {"k": 2}}
OPTIONS |= {"approx_quantile": {"q": 0.3}, "approx_top_k": {"k": 2}}
FORMS = [name for name in FUNCTIONS if name not in ("count_all", "monoid")]
KINDS = {
    "array": np.asarray,
    "list": list,
    "pandas": lambda x: pd.Series(x, index=range(10, 17), name="col"),
    "polars": lambda x: pl.Series("col", x),
    "pyarrow": pa.array,
}


def columns_of(fn):
    """Values for the columns that the short form takes; booleans where it wants them."""
    count = FUNCTIONS[fn].least_columns or 1
    return [X > 2.5 if fn in ("any", "all") else X, Y][:count]


def asked(fn, columns, spec):
    """The same in the long form."""
    names = "abc"[: len(columns)]
    data = dict(zip(names, columns, strict=True)) | {"t": DAYS}
    return spec.agg(answer=getattr(agg, fn)(*names, **OPTIONS.get(fn, {})))(data)["answer"]


def as_list(answers):
    values = list(answers.to_list() if isinstance(answers, pl.Series) else answers.tolist())
    return repr([list(v) if isinstance(v, (list, np.ndarray)) else v for v in values])


@pytest.mark.parametrize("fn", FORMS)
def test_rows(fn):
    columns, options = columns_of(fn), OPTIONS.get(fn, {})
    got = getattr(mta, f"rolling_{fn}")(*columns, 3, lag=1, **options)
    assert as_list(got) == as_list(asked(fn, columns, mta.rolling(3, lag=1)))


@pytest.mark.parametrize("fn", FORMS)
def test_times(fn):
    columns, options = columns_of(fn), OPTIONS.get(fn, {})
    form = getattr(mta, f"rolling_{fn}_by")
    got = form(*columns, by=DAYS, range="3d", closed="both", **options)
    want = asked(fn, columns, mta.rolling("3d", on="t", closed="both"))
    assert as_list(got) == as_list(want)


def test_there_is_a_pair_for_every_function_and_each_is_documented():
    assert sorted(short.__all__) == sorted(
        f"rolling_{fn}{by}" for fn in FORMS for by in ("", "_by")
    )
    for name in short.__all__:
        form = getattr(mta, name)
        assert form.__name__ == name
        assert all(p in form.__doc__ for p in inspect.signature(form).parameters)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_comes_is_what_goes(kind):
    make = KINDS[kind]
    got = mta.rolling_sum_by(make(Y), by=make(DAYS), range="2d")
    want = mta.rolling_sum_by(Y, by=DAYS, range="2d")
    assert as_list(got) == as_list(want)
    assert isinstance(got, np.ndarray if kind == "list" else type(make(Y)))


def test_a_series_keeps_its_index_and_name_and_others_are_taken_by_place():
    x = pd.Series([1.0, 2.0], index=["a", "b"], name="col")
    got = mta.rolling_weighted_mean(x, pd.Series([1.0, 3.0], index=["b", "a"]), 2)
    pd.testing.assert_series_equal(got, pd.Series([1.0, 1.75], index=["a", "b"], name="col"))
    assert mta.rolling_max(pl.Series("col", [1, 2]), 2).name == "col"


def test_what_a_form_can_not_take_is_refused():
    with pytest.raises(DataError, match="weights: 1 values beside 2"):
        mta.rolling_weighted_mean(pd.Series([1.0, 2.0]), pd.Series([1.0]), 2)
    with pytest.raises(SpecError, match="window: must be a whole number from 1"):
        mta.rolling_sum(X, 0)
    with pytest.raises(TypeError, match="ddof"):
        mta.rolling_sum(X, 2, ddof=1)
    with pytest.raises(TypeError, match="window"):
        mta.rolling_sum(X)


def test_the_argument_that_is_wrong_is_named():
    with pytest.raises(SpecError, match=r"window: .*rolling_sum_by"):
        mta.rolling_sum(np.array([1, 2]), "2h")
    for bad in (pd.DataFrame({"x": [1]}), "abc", {"x": [1]}):
        with pytest.raises(DataError, match="column: one column is needed"):
            mta.rolling_sum(bad, 2)
