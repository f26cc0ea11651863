"""What is no sketch, no value for one, or no option; and a missing library."""

from __future__ import annotations

import sys
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import mta
from kinds import KINDS, build
from mta import agg, sketches
from mta.errors import DataError, SpecError

pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")

MERGED = {
    "kll_sketch": {},
    "hll_sketch": {},
    "theta_sketch": {},
    "frequent_items_sketch": {"source": "text"},
}


def one_of_each(rows):
    spec = mta.rolling(3).agg(**{fn: getattr(agg, fn)("x") for fn in MERGED})
    return {fn: column[-1] for fn, column in spec(rows).items()}


@pytest.fixture(scope="module")
def whole():
    made = one_of_each({"x": np.array([1.5, 2.5, 3.5])})
    texts = mta.rolling(3).agg(a=agg.frequent_items_sketch("x"))({"x": np.array(["a", "b", "a"])})
    return made | {"frequent_items_sketch": texts["a"][-1]}


def foreign(whole, fn):
    return next(data for name, data in whole.items() if name != fn)


@pytest.mark.parametrize("fn", MERGED)
@pytest.mark.parametrize("bad", ["foreign", "cut", "empty", "text"])
def test_what_is_no_sketch_is_refused_by_column_and_row(whole, fn, bad):
    data = whole[fn]
    wrong = {"foreign": foreign(whole, fn), "cut": data[:-9], "empty": b"", "text": "abc"}[bad]
    column = np.array([data, None, data, wrong, wrong, data], object)
    rows = {"t": np.array([5, 4, 3, 2, 1, 0]), "s": column}
    spec = mta.rolling("3i", on="t").agg(a=getattr(agg, fn)("s", merge=True, **MERGED[fn]))
    with pytest.raises(DataError, match=r"column 's', row 3: .*(sketch|KLL)"):
        spec(rows)
    op = spec.stream()
    op.push({"t": np.array([-1]), "s": column[:1]})
    before = op.state()
    with pytest.raises(DataError, match=r"column 's', row [34]: "):
        op.push(rows)
    assert op.state() == before
    window = mta.Window(getattr(agg, fn)("s", merge=True, **MERGED[fn]))
    window.insert(data)
    with pytest.raises(DataError, match="row 1: column 's': "):
        window.insert(wrong)
    assert len(window) == 1 and window.push(data) is not None


def test_bytes_that_numpy_has_cut_short_are_refused(whole):
    rows = {"s": np.array([whole["kll_sketch"]] * 2)}  # dtype S drops zeros at the end
    with pytest.raises(DataError, match=r"column 's', row 0: .*objects"):
        mta.rolling(2).agg(a=agg.kll_sketch("s", merge=True))(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_no_sketches(kind):
    frame = build(kind, {"x": ("int64", [1, 2])})
    with pytest.raises(DataError, match="needs the bytes of sketches, but column 'x'"):
        mta.rolling(2).agg(a=agg.theta_sketch("x", merge=True))(frame)


@pytest.mark.parametrize("fn", ["approx_quantile", "kll_sketch"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_no_quantiles(fn, kind):
    options = {"q": 0.5} if fn == "approx_quantile" else {}
    frame = build(kind, {"s": ("string", ["a", "b"])})
    with pytest.raises(DataError, match="needs numbers or times, but column 's'"):
        mta.rolling(2).agg(a=getattr(agg, fn)("s", **options))(frame)


def test_values_that_are_not_hashed():
    spec = mta.rolling(2).agg(n=agg.approx_count_distinct("v"))
    for column in ([None, b"x"], [None, Decimal("1.5")]):
        name = type(column[1]).__name__
        for frame in (
            {"v": np.array(column, object)},
            pa.table({"v": column}),
            pl.DataFrame({"v": column}),
        ):
            with pytest.raises(DataError, match=f"column 'v', row 1: .*{name}"):
                spec(frame)
    with pytest.raises(DataError, match="'v'"):
        spec(pa.table({"v": [[1], [2]]}))


def test_integers_that_no_long_holds():
    rows = {"u": np.array([1, 2**63, 5], np.uint64)}
    with pytest.raises(OverflowError, match=r"a: column 'u' holds .* row 1;"):
        mta.rolling(2).agg(q=agg.approx_quantile("u", 0.5), a=agg.kll_sketch("u"))(rows)
    assert mta.rolling(1).agg(q=agg.approx_quantile("u", 0.5))(rows)["q"].tolist() == [1, 2**63, 5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: agg.approx_quantile("x", 1.5), "q must be"),
        (lambda: agg.approx_quantile("x", 0.5, k=7), "k must be 8 to 65535, not 7"),
        (lambda: agg.kll_sketch("x", k=65536), "k must be"),
        (lambda: agg.approx_count_distinct("x", lg_k=3), "lg_k must be 4 to 21, not 3"),
        (lambda: agg.theta_sketch("x", lg_k=4), "lg_k must be 5 to 26, not 4"),
        (lambda: agg.approx_top_k("x", 0), "k must be"),
        (lambda: agg.approx_top_k("x", 5, max_items=10**6 + 1), "max_items must be"),
        (lambda: agg.hll_sketch("x", merge=1), "merge must be True or False"),
        (lambda: agg.kll_sketch("x", source="int"), "source: with merge=True only"),
        (lambda: agg.kll_sketch("x", merge=True, source="text"), "source must be one of"),
        (lambda: agg.Aggregate("sum", "x", merge=True), "merge=True means nothing"),
        (lambda: agg.Aggregate("sum", "x", lg_k=5), "lg_k=5 means nothing"),
    ],
)
def test_options_without_meaning(make, words):
    with pytest.raises(SpecError, match=words):
        make()


SPECS = [
    agg.approx_quantile("x", 0.5),
    agg.approx_quantile("x", 0.25, k=400, nan="skip", min_count=2),
    agg.approx_count_distinct("x", lg_k=10),
    agg.approx_top_k("x", 1),
    agg.approx_top_k("x", 3, max_items=10),
    agg.kll_sketch("x"),
    agg.kll_sketch("x", merge=True, source="int"),
    agg.hll_sketch("x", lg_k=14, merge=True),
    agg.theta_sketch("x", merge=True),
    agg.frequent_items_sketch("x", max_items=5, merge=True, source="text"),
]


@pytest.mark.parametrize("aggregate", SPECS, ids=repr)
def test_shown_as_the_call_and_written_as_json(aggregate):
    assert eval(repr(aggregate), {"agg": agg}) == aggregate
    spec = mta.rolling(3).agg(a=aggregate)
    assert mta.Spec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("fn", ["approx_count_distinct", "theta_sketch", "frequent_items_sketch"])
def test_without_the_library_its_extra_is_named(monkeypatch, fn):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    sketches.library.cache_clear()
    rows = {"x": np.array([1.0, 2.0])}
    spec = mta.rolling(2).agg(a=getattr(agg, fn)("x"))
    try:
        with pytest.raises(ImportError, match=r"pip install 'mta-windows\[sketches\]'"):
            spec(rows)
        with pytest.raises(ImportError, match=r"mta-windows\[sketches\]"):
            spec.stream().push(rows)
        with pytest.raises(ImportError, match=r"mta-windows\[sketches\]"):
            mta.Window(getattr(agg, fn)("x"))
        of_its_own = mta.rolling(2).agg(q=agg.approx_quantile("x", 1), s=agg.kll_sketch("x"))
        assert of_its_own(rows)["q"].tolist() == [1.0, 2.0]
    finally:
        sketches.library.cache_clear()
