"""Every argument of every public function, given what it is not made for."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
from functools import partial

import numpy as np
import pandas as pd
import pytest

import mta
import mta.fifo
from mta import agg
from mta.errors import DataError, MtaError, SpecError

# Of each kind what is likely to break a comparison, a conversion or a loop.
NONSENSE = [
    0, -1, 1.5, True, float("nan"), float("inf"), 10**30, -(10**30), 2**63, "abc", "", b"x", None,
    [], ["a", "a"], ["a", None], {}, dt.timedelta(0), np.timedelta64("NaT"), pd.NaT, pd.NA, object,
    object(), np.array([1, 2]), np.bool_(True), decimal.Decimal("0.5"), pd.Timestamp(0, tz="UTC"),
]  # fmt: skip

NUMBERED = mta.tumbling("1h", on="ts").watermark("1h").agg(n=agg.count())
TRAILING = mta.rolling("1h", on="ts").agg(n=agg.count())


def needed(function):
    """The function with columns for the arguments that have no default."""
    given = {"q": 0.5, "k": 2}
    parameters = inspect.signature(function).parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty]
    return partial(function, **{name: given.get(name, f"c_{name}") for name in missing})


FUNCTIONS = {
    f"agg.{name}": needed(getattr(agg, name))
    for name in agg.__all__
    if name not in ("Aggregate", "monoid")
} | {
    "rolling": partial(mta.rolling, range="1h", on="ts"),
    "rolling over rows": partial(mta.rolling, range=3),
    "hopping": partial(mta.hopping, range="1h", on="ts"),
    "tumbling": partial(mta.tumbling, range="1h", on="ts"),
    "landmark": partial(mta.landmark, slide="1h", on="ts"),
    "calendar": partial(mta.calendar, period="1 day", on="ts"),
    "watermark": mta.rolling("1h", on="ts").watermark,
    "watermark by number": mta.hopping("1h", on="ts").watermark,
    "late": mta.rolling("1h", on="ts").late,
    "stream": TRAILING.stream,
    "stream on a store": partial(TRAILING.stream, memory="1MB"),
    "stream by number": NUMBERED.stream,
    "stream by number on a store": partial(NUMBERED.stream, memory="1MB"),
    "low_level": NUMBERED.low_level,
    "together": partial(mta.together(TRAILING).stream, memory="1MB"),
    "last": partial(mta.last, range=3),
    "since_max": partial(mta.since_max, name="x"),
    "at_most": partial(mta.at_most, total=10, name="x"),
    "call": partial(TRAILING, data={"ts": np.array([1, 2], "M8[s]")}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nonsense_is_taken_or_refused_with_an_error_of_ours(name):
    function = FUNCTIONS[name]
    for argument in inspect.signature(function).parameters:
        for value in NONSENSE:
            told = f"{argument}={value!r}"
            try:
                function(**{argument: value})
            except MtaError:
                pass
            except Exception as error:
                raise AssertionError(f"{name}({told})") from error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.sum("x", nan=pd.NA), "agg.sum: nan must be one of"),
        (lambda: agg.sum("x", min_count=2**63), r"min_count must .* 0 to 9223372036854775807, not"),
        (lambda: agg.var("x", ddof=10**30), r"agg.var: ddof must be a whole number from 0 to"),
        (lambda: agg.most_common("x", 2**31), r"k must be a whole number from 1 to 2147483647"),
        (lambda: mta.rolling(3, every=10**30), r"every: must be a whole number from 1 to"),
        (lambda: mta.rolling(3, min_periods=2**63), r"min_periods: must be a whole number from 0"),
        (lambda: mta.rolling(3, closed=pd.NA), "closed: must be one of"),
        (lambda: mta.hopping("1h", on="t", origin=np.timedelta64("NaT")), "origin: .* no fixed"),
        (lambda: mta.rolling("1h", on="t").watermark(sources=0), "sources: must be a list of"),
        (lambda: mta.rolling("1h", on="t").watermark(sources=b"ab"), "sources: must be a list of"),
        (lambda: mta.rolling("1h", on="t").watermark(sources=["a", None]), "sources: None is not"),
        (lambda: mta.rolling("1h", on="t").watermark(per=pd.NA), "per: must be one of"),
        (lambda: NUMBERED.low_level(sources=7), "sources: must be a list of"),
        (lambda: TRAILING.stream(memory="1MB", name=7), "name: text without / is needed, not 7"),
        (lambda: TRAILING.stream(memory="1MB", block="4KB"), "block: must be a whole number"),
        (lambda: NUMBERED.stream(memory="1MB", name=7), "name: text without / and ~ is needed"),
        (lambda: NUMBERED.stream(memory="1MB", block="4KB"), "block: must be a whole number"),
        (lambda: NUMBERED.stream(memory="1MB", plan=pd.NA), "plan: with memory= one of"),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_numbers_of_numpy_are_numbers():
    assert repr(agg.quantile("x", np.float64(0.5))) == "agg.quantile('x', q=0.5)"
    assert mta.at_most(np.int32(10), "x") == mta.at_most(10, "x")
    assert TRAILING({"ts": np.array([1, 2], "M8[s]")}, threads=np.int64(2))["n"].tolist() == [1, 2]
    shifted = mta.hopping("1d", on="ts", origin=np.timedelta64(-8, "h"))
    assert shifted == mta.hopping("1d", on="ts", origin="-8h")


@pytest.mark.parametrize(
    ("fn", "all_of_them"),
    [(agg.top_k, [7.0, 7.0, 5.0]), (agg.most_common, [7.0, 5.0]), (agg.approx_top_k, [7.0, 5.0])],
)
@pytest.mark.parametrize("memory", [None, "1MB"])
def test_more_places_than_values_give_all(fn, all_of_them, memory):
    spec = mta.rolling(3).agg(a=fn("x", k=2**16))
    answers = spec.stream(memory=memory).push({"x": np.array([5.0, 7.0, 7.0])})["a"]
    assert answers[-1].tolist() == all_of_them


IN_NANOSECONDS = {"ts": np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:05"], "M8[ns]")}


@pytest.mark.parametrize("spec", [NUMBERED, TRAILING, TRAILING.watermark("1h")])
@pytest.mark.parametrize("memory", [None, "1MB"])
@pytest.mark.parametrize("year", [1, 3000])
def test_a_time_that_the_column_cannot_hold_moves_nothing(spec, memory, year):
    op = spec.stream(memory=memory)
    op.push(IN_NANOSECONDS)
    before = op.state()
    with pytest.raises(DataError, match=r"advance: .* is beyond the times that the column"):
        op.advance(dt.datetime(year, 1, 1))
    assert op.state() == before
    assert len(op.push(IN_NANOSECONDS)["n"]) + len(op.finish()["n"]) > 0


@pytest.mark.parametrize("to", [2**63, -(10**30), np.timedelta64(5), np.timedelta64("NaT"), True])
def test_integers_go_on_to_integers_of_64_bits(to):
    op = mta.tumbling("10i", on="ts").watermark("2i").agg(n=agg.count()).stream()
    op.push({"ts": np.array([1, 2])})
    with pytest.raises(DataError, match="advance: "):
        op.advance(to)


def test_pandas_times_are_read_to_the_nanosecond():
    op = TRAILING.watermark("1h").stream()
    op.push(IN_NANOSECONDS)
    op.advance(pd.Timestamp("2026-01-01 00:00:07.000000001"))
    assert op.state()["watermark"] == pd.Timestamp("2026-01-01 00:00:07.000000001").value


def test_sources_have_names():
    op = TRAILING.watermark("1h").stream()
    op.push(IN_NANOSECONDS)
    for call in (lambda: op.advance(IN_NANOSECONDS["ts"][1], "web"), lambda: op.idle("web")):
        with pytest.raises(DataError, match="this spec has no sources"):
            call()
    op = NUMBERED.stream()
    op.push(IN_NANOSECONDS)
    with pytest.raises(DataError, match=r"source: \['web'\] is not the name of a source"):
        op.idle(["web"])


@pytest.mark.parametrize("many", [[1.0, 2.0], (1, 2), pd.Series([1.0, 2.0]), range(3)])
def test_rows_at_once_are_arrays_to_a_window(many):
    window = mta.Window(agg.sum("x"), mta.last(2))
    with pytest.raises(DataError, match=r"row 0: column 'x': a \w+ is not a number; rows at once"):
        window.push(x=many)
    assert len(window) == 0


@pytest.mark.parametrize("count", [1.5, "2", None])
def test_rows_are_counted_in_whole_numbers(count):
    """Half a row was none."""
    window, queue = mta.Window(agg.sum("x"), None), mta.fifo.AMTA(agg.sum("x"))
    for x in (1, 2, 3):
        window.insert(x=x)
        queue.insert(x)
    for call in (
        lambda: window.evict(count),
        lambda: queue.evict_many(count),
        lambda: queue.slide(np.array([4]), keep=count),
    ):
        with pytest.raises(TypeError, match="integer"):
            call()
    assert window.result() == queue.query() == 6


@pytest.mark.parametrize("window", [0, -1, True, 10**30])
def test_short_forms_name_their_own_argument(window):
    with pytest.raises(SpecError, match="window: must be a whole number from 1"):
        mta.rolling_sum(np.array([1.0]), window)
