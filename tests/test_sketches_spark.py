"""Our sketches in Spark SQL's own functions, and Spark's sketches in ours, by their bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mta._bounds import GivenBounds
from mta._kernel import Counter, slide
from mta.sketches import Frequent, Hll, Quantiles, Theta, make_sketch_kernel

pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")
pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
pytestmark = pytest.mark.spark

ESTIMATE = [("estimate", None)]

# Spark's type, ours, and values by number.
TYPES = {
    "bigint": ("int", lambda i: i * 3 - 1000),
    "string": ("text", lambda i: f"né {i}"),
    "double": ("float", lambda i: i / 7 - 3),
}
ARROW = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64()}
SIZES = (1, 6, 150, 20_000)  # HLL: a list, a list, a set, registers


def values_of(type_: str, n: int) -> list:
    """n values, every one twice."""
    return [TYPES[type_][1](i) for i in range(n)] * 2


def answers(sketch, wanted, values, lo=(0,), hi=None) -> list:
    """Our kernel's answers over some windows of values."""
    lo, hi = np.array(lo), np.array([len(values)] if hi is None else hi)
    items = values if sketch.merge or sketch.source == "text" else None
    kind = {"float": float, "int": int}.get(sketch.source, int)
    column = np.arange(len(values)) if items is not None else np.array(values, kind)
    kernel = make_sketch_kernel(sketch, Counter([]), wanted, items)
    kernel.attach([column], None, 0)
    kinds = {"quantile": kind, "estimate": np.int64}
    made = [np.empty(len(lo), kinds.get(what, object)) for what, _ in wanted]
    kernel.answer_to(made)
    assert slide(GivenBounds(lo, hi), [], [kernel]) is None
    return [column.tolist() for column in made]


def bytes_of(sketch, values) -> bytes:
    return answers(sketch, [("bytes", None)], values)[0][0]


@pytest.fixture
def sql(spark):
    """Ask Spark, over a view `v` of values x and a view `s` of sketches s, both with a number n."""

    def view(name, column, by_number, arrow):
        pairs = [(n, x) for n, values in by_number.items() for x in values]
        table = pa.table(
            {"n": pa.array([n for n, _ in pairs], pa.int64()),
             column: pa.array([x for _, x in pairs], arrow)}
        )  # fmt: skip
        spark.createDataFrame(table).createOrReplaceTempView(name)

    def ask(query, values=None, type_="bigint", sketches=None):
        if values is not None:
            view("v", "x", values, ARROW[type_])
        if sketches is not None:
            view("s", "s", sketches, pa.binary())
        return spark.sql(query).collect()

    return ask


# ---- distinct --------------------------------------------------------------------------------

DISTINCT = {"hll": Hll, "theta": Theta}


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("hll", "bigint"),
        ("hll", "string"),
        ("theta", "bigint"),
        ("theta", "string"),
        ("theta", "double"),
    ],
)
def test_a_union_of_ours_and_sparks_counts_every_value_once(sql, name, type_):
    values = {n: values_of(type_, n) for n in SIZES}
    sketch = DISTINCT[name](12, TYPES[type_][0])
    ours = {n: bytes_of(sketch, x) for n, x in values.items()}
    rows = sql(
        f"""select n, {name}_sketch_estimate(s) own, {name}_sketch_estimate({name}_union(s, t)), t
            from s join (select n, {name}_sketch_agg(x, 12) t from v group by n) using (n)""",
        values, type_, {n: [data] for n, data in ours.items()},
    )  # fmt: skip
    assert sorted(row.n for row in rows) == list(SIZES)
    for n, own, union, data in rows:
        estimate = answers(sketch, ESTIMATE, values[n])[0][0]
        theirs = sketch.from_bytes(bytes(data))
        assert abs(own - estimate) <= 1  # the same registers, summed up in another order
        assert abs(union - estimate) <= 1
        assert sketch.lower(sketch.combine(sketch.from_bytes(ours[n]), theirs), ESTIMATE) == [
            estimate
        ]
        assert sketch.lower(sketch.join(theirs, [], sketch.zero()), ESTIMATE) == [estimate]
        assert abs(estimate - n) <= 0.06 * n


@pytest.mark.parametrize("name", DISTINCT)
def test_spark_merges_ours_of_many_windows(sql, name):
    values = values_of("bigint", 20_000)
    sketch = DISTINCT[name](11)
    lo = np.arange(0, 40_000, 2_500)
    data = answers(sketch, [("bytes", None)], values, lo, lo + 5_000)[0]
    ((merged,),) = sql(
        f"select {name}_sketch_estimate({name}_union_agg(s{', 11' * (name == 'theta')})) from s",
        sketches=dict(enumerate([x] for x in data)),
    )
    assert abs(merged - answers(sketch, ESTIMATE, values)[0][0]) <= 1


@pytest.mark.parametrize("name", DISTINCT)
def test_windows_over_sparks_sketches_of_every_day(sql, name):
    """Seven days' distinct values from one sketch a day."""
    rows = sql(
        f"""select id div 1000 day, {name}_sketch_agg(hash(id) % 7000, 12) s
            from range(30000) group by 1 order by 1"""
    )
    hi = np.arange(1, 31)
    lo = np.maximum(0, hi - 7)
    sketch = DISTINCT[name](12, merge=True)
    got = answers(sketch, ESTIMATE, [bytes(row.s) for row in rows], lo, hi)[0]
    exact = sql(
        """select count(distinct hash(id) % 7000) n
           from range(30000) join (select explode(sequence(0, 29)) day)
             on id div 1000 between day - 6 and day
           group by day order by day"""
    )
    np.testing.assert_allclose(got, [row.n for row in exact], rtol=0.07)


def test_theta_sketches_of_ours_are_intersected_and_subtracted(sql):
    a, b = range(3000), range(1000, 5000)
    sketches = [bytes_of(Theta(12), list(x)) for x in (a, b)]
    ((common, rest),) = sql(
        """select theta_sketch_estimate(theta_intersection(a, b)),
                  theta_sketch_estimate(theta_difference(a, b))
           from (select max_by(s, n) b, min_by(s, n) a
                 from (select s, theta_sketch_estimate(s) n from s))""",
        sketches={0: sketches},
    )
    assert (common, rest) == (2000, 1000)


def test_sparks_doubles_that_are_one_value_are_one_of_ours(sql):
    values = [0.0, -0.0, float("nan"), -float("nan"), 1.5]
    ((theirs,),) = sql("select theta_sketch_agg(x) from v", {0: values}, "double")
    sketch = Theta(source="float")
    both = sketch.combine(
        sketch.from_bytes(bytes(theirs)), sketch.from_bytes(bytes_of(sketch, values))
    )
    assert sketch.lower(both, ESTIMATE) == [3]


# ---- quantiles -------------------------------------------------------------------------------

RANKS = (0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0)


@pytest.mark.parametrize("type_", ["bigint", "double"])
def test_quantiles_read_the_same_on_both_sides(sql, type_):
    source, value = TYPES[type_]
    kind = {"int": np.int64, "float": np.float64}[source]
    rng = np.random.default_rng(0)
    values = {n: rng.permutation([value(i) for i in range(n)]).tolist() for n in SIZES}
    sketch = Quantiles(200, source)
    get = f"kll_sketch_get_quantile_{type_}"
    ranks = f"array({', '.join(map(str, RANKS))})"
    rows = sql(
        f"""select n, kll_sketch_get_n_{type_}(s), {get}(s, {ranks}), {get}(t, {ranks}), t
            from s join (select n, kll_sketch_agg_{type_}(x, 200) t from v group by n) using (n)""",
        values, type_, {n: [bytes_of(sketch, x)] for n, x in values.items()},
    )  # fmt: skip
    assert sorted(row.n for row in rows) == list(SIZES)
    for n, count, ours, theirs, data in rows:
        assert count == n
        wanted = [("quantile", q) for q in RANKS]
        assert ours == [column[0] for column in answers(sketch, wanted, values[n])]
        read = sketch.from_bytes(bytes(data))
        assert read.n == n
        assert theirs == np.array(read.quantiles(RANKS), np.int64).view(kind).tolist()
        places = np.searchsorted(np.sort(values[n]), theirs) + 1
        assert np.abs(places - np.maximum(1, np.ceil(np.array(RANKS) * n))).max() <= 0.0133 * n


@pytest.mark.parametrize("type_", ["bigint", "double"])
def test_quantile_sketches_of_both_merge_on_both_sides(sql, type_):
    source, value = TYPES[type_]
    n = 20_000
    values = [value(i) for i in range(n)]
    sketch = Quantiles(200, source)
    ours = answers(
        sketch, [("bytes", None)], values, range(0, n // 2, 1000), range(1000, n // 2 + 1, 1000)
    )[0]
    ((theirs,),) = sql(f"select kll_sketch_agg_{type_}(x) from v", {0: values[n // 2 :]}, type_)
    ((count, middle),) = sql(
        f"""select kll_sketch_get_n_{type_}(m), kll_sketch_get_quantile_{type_}(m, 0.5)
            from (select kll_merge_agg_{type_}(s) m from s)""",
        sketches={0: [*ours, bytes(theirs)]},
    )
    assert count == n
    assert abs(np.searchsorted(values, middle) / n - 0.5) < 0.02
    merging = Quantiles(200, source, merge=True)
    got = answers(merging, [("quantile", 0.5)], [*ours, bytes(theirs)])[0][0]
    assert abs(np.searchsorted(values, got) / n - 0.5) < 0.02


# ---- heavy hitters ---------------------------------------------------------------------------

TOP = {
    "bigint": [5, -7, 2**62],
    "double": [0.1, -2.5, 1e300],
    "string": ["né", "", "日本"],
}


def state(type_: str, sketch: str = "s", size: int = 100) -> str:
    """Spark's struct around the bytes, as SQL."""
    ddl = "item string not null" if type_ == "string" else f"item {type_.upper()} NOT NULL"
    return (
        f"named_struct('sketch', {sketch}, 'maxItemsTracked', {size}, "
        f"'itemDataType', cast(null as {type_}), 'itemDataTypeDDL', '{ddl}')"
    )


@pytest.mark.parametrize("type_", TOP)
def test_top_items_read_the_same_on_both_sides(sql, type_):
    source, value = TYPES[type_]
    values = [v for v, n in zip(TOP[type_], (40, 30, 20), strict=True) for _ in range(n)]
    values += [value(i + 50) for i in range(60)]
    sketch = Frequent(100, source)
    ours = bytes_of(sketch, values)
    ((top, both, theirs),) = sql(
        f"""select approx_top_k_estimate({state(type_)}, 3), approx_top_k_estimate(
              (select approx_top_k_combine(t, 100) from
                (select {state(type_)} t from s union all
                 select approx_top_k_accumulate(x, 100) from v)), 3),
              (select approx_top_k_accumulate(x, 100).sketch from v)
            from s""",
        {0: values}, type_, {0: [ours]},
    )  # fmt: skip
    expected = list(zip(TOP[type_], (40, 30, 20), strict=True))
    assert [tuple(row) for row in top] == expected
    assert [tuple(row) for row in both] == [(item, 2 * n) for item, n in expected]
    merging = Frequent(100, source, merge=True)
    items, counts = answers(merging, [("items", 3), ("counts", 3)], [ours, bytes(theirs)])
    if type_ == "double":
        items = [np.array(items[0]).view(float).tolist()]
    assert list(zip(items[0], counts[0], strict=True)) == [(item, 2 * n) for item, n in expected]


def test_top_items_of_many_values_keep_to_the_bound_in_spark(sql):
    values = (np.random.default_rng(4).zipf(1.4, 20_000) % 50_000).tolist()
    sketch = Frequent(100)
    ((top,),) = sql(
        f"select approx_top_k_estimate({state('bigint')}, 5) from s",
        sketches={0: [bytes_of(sketch, values)]},
    )
    items, counts = answers(sketch, [("items", 5), ("counts", 5)], values)
    assert [row.item for row in top] == items[0]
    assert [row["count"] for row in top] == counts[0]


def test_empty_sketches_are_empty_in_spark(sql):
    ((n, distinct, theta, top),) = sql(
        f"""select kll_sketch_get_n_double(k), hll_sketch_estimate(h), theta_sketch_estimate(t),
                   approx_top_k_estimate({state("bigint", "f")})
            from (select unhex('{bytes_of(Quantiles(), []).hex()}') k,
                         unhex('{bytes_of(Hll(), []).hex()}') h,
                         unhex('{bytes_of(Theta(), []).hex()}') t,
                         unhex('{bytes_of(Frequent(100), []).hex()}') f)"""
    )
    assert (n, distinct, theta, top) == (0, 0, 0, [])
