"""Bad specs and bad input: each a clear error that names the culprit, and nothing changed."""

from __future__ import annotations

import copy
import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mta
from kinds import KINDS, build, read
from mta import agg
from mta.errors import ColumnError, DataError, MtaError, SpecError

# ---- specs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "range_",
    [
        *("0s", "-5m", "0i", "-3i", 0, -3, dt.timedelta(0), dt.timedelta(days=-1)),
        *("abc", "", "5", "h", "1.5.2h", "5 parsecs", "1h ago", "99999999999999w", 2**80),
        *(np.timedelta64(0, "s"), np.timedelta64("NaT"), np.timedelta64(3, "M")),
        *("1M", "2MS"),  # in pandas these are months, not minutes and milliseconds
    ],
    ids=repr,
)
def test_range_that_has_no_meaning(range_):
    with pytest.raises(SpecError, match="range"):
        mta.rolling(range_, on="t").agg(n=agg.count())


@pytest.mark.parametrize("range_", [2.5, True, [1], {"h": 1}, b"1h"], ids=repr)
def test_range_of_a_wrong_type(range_):
    with pytest.raises((SpecError, TypeError), match="range"):
        mta.rolling(range_, on="t").agg(n=agg.count())


def test_numbers_of_numpy_are_taken_as_numbers():
    spec = mta.rolling(np.int64(3), min_periods=np.int8(2), every=np.uint8(2), lag=np.int32(-1))
    spec = spec.agg(top=agg.top_k("x", np.int64(2)), v=agg.var("x", ddof=np.int16(0)))
    plain = mta.rolling(3, min_periods=2, every=2, lag=-1)
    assert spec == plain.agg(top=agg.top_k("x", 2), v=agg.var("x", ddof=0))
    assert repr(spec) == repr(eval(repr(spec))) and mta.spec_from_json(spec.to_json()) == spec
    assert repr(mta.last(np.int64(3))) == "mta.last(3)"


@pytest.mark.parametrize("range_", ["1h", "5i", dt.timedelta(hours=1)], ids=repr)
def test_time_range_without_a_time_column(range_):
    with pytest.raises(SpecError, match="on"):
        mta.rolling(range_).agg(n=agg.count())


@pytest.mark.parametrize("value", ["rigth", "RIGHT", "", None, 1, "open"], ids=repr)
def test_unknown_closed(value):
    with pytest.raises(
        (SpecError, TypeError), match=r"closed(.|\n)*right(.|\n)*left(.|\n)*both(.|\n)*neither"
    ):
        mta.rolling("1h", on="t", closed=value).agg(n=agg.count())


@pytest.mark.parametrize("value", ["peer", "", None, 0], ids=repr)
def test_unknown_ties(value):
    with pytest.raises((SpecError, TypeError), match=r"ties(.|\n)*peers(.|\n)*arrival"):
        mta.rolling("1h", on="t", ties=value).agg(n=agg.count())


@pytest.mark.parametrize("value", [-1, 2.5, "3", True, [1]], ids=repr)
def test_bad_min_periods(value):
    with pytest.raises((SpecError, TypeError), match="min_periods"):
        mta.rolling("1h", on="t", min_periods=value).agg(n=agg.count())


@pytest.mark.parametrize(
    ("range_", "lag"),
    [
        ("1h", "soon"),
        ("1h", 1.5),
        ("1h", "3i"),
        ("5i", "1h"),
        (5, "1h"),
        (5, 1.5),
        (5, True),
        (5, "3i"),
    ],
    ids=repr,
)
def test_lag_that_does_not_fit_the_range(range_, lag):
    with pytest.raises((SpecError, TypeError), match="lag"):
        mta.rolling(range_, on="t", lag=lag).agg(n=agg.count())


@pytest.mark.parametrize("range_", ["5i", None])
def test_arrival_order_of_ties_keeps_out_what_a_negative_lag_asks_for(range_):
    with pytest.raises(SpecError, match=r"ties(.|\n)*lag"):
        mta.rolling(range_, on="t", lag="-1i", ties="arrival")
    for lag in ("0i", "1i", None):
        mta.rolling(range_, on="t", lag=lag, ties="arrival")
    mta.rolling(5, on="t", lag=-1, ties="arrival")  # of rows, which have no ties


@pytest.mark.parametrize("name", ["on", "by"])
@pytest.mark.parametrize("value", [3, 2.5, b"t", [1], [None]], ids=repr)
def test_columns_are_named_by_strings(name, value):
    with pytest.raises(SpecError, match=name):
        mta.rolling("1h", **{"on": "t", name: value}).agg(n=agg.count())


@pytest.mark.parametrize("by", [{"k"}, {"k": 1}, iter(["k"]), ("k", 1), [["k"]]], ids=type)
def test_keys_are_a_name_or_a_list_of_names(by):
    with pytest.raises(SpecError, match="by"):
        mta.rolling(3, by=by)


def test_the_same_key_twice():
    with pytest.raises(SpecError, match=r"by(.|\n)*k"):
        mta.rolling(3, by=["k", "k"]).agg(n=agg.count())


@pytest.mark.parametrize(
    "windows",
    [mta.rolling(2, on="t", by="k", every=2), mta.rolling("2i", on="t", by="k").watermark()],
)
@pytest.mark.parametrize("name", ["k", "t"])
def test_an_answer_named_as_the_column_that_says_whose_it_is(windows, name):
    with pytest.raises(SpecError, match=name):
        windows.agg(**{name: agg.count()}).stream()


def test_two_answers_of_one_name():
    with pytest.raises(SpecError, match="x_sum"):
        mta.rolling(3).agg(agg.sum("x"), agg.sum("x", min_count=2))
    with pytest.raises(SpecError, match="x_sum"):
        mta.rolling(3).agg(agg.sum("x"), x_sum=agg.max("x"))


def test_no_answers_asked_for():
    with pytest.raises(SpecError, match="agg"):
        mta.rolling(3).agg()


@pytest.mark.parametrize("thing", ["sum", agg.sum, None, 3, ("x", "sum")], ids=repr)
def test_things_that_are_not_aggregates(thing):
    with pytest.raises((SpecError, TypeError), match="total"):
        mta.rolling(3).agg(total=thing)
    with pytest.raises((SpecError, TypeError)):
        mta.rolling(3).agg(thing)


@pytest.mark.parametrize("make", [agg.sum, agg.mean, agg.min, agg.max, agg.var, agg.std, agg.count])
def test_bad_options_of_aggregates(make):
    for bad in (-1, 1.5, "2", True):
        with pytest.raises((SpecError, TypeError), match="min_count"):
            make("x", min_count=bad)
    for bad in ("ignore", "", 1, True):
        with pytest.raises(
            (SpecError, TypeError), match=r"nan(.|\n)*propagate(.|\n)*skip(.|\n)*greatest"
        ):
            make("x", nan=bad)
    for bad in (3, b"x", ["x"]):
        with pytest.raises((SpecError, TypeError)):
            make(bad)


@pytest.mark.parametrize("make", [agg.var, agg.std])
@pytest.mark.parametrize("ddof", [-1, 0.5, "1", None, True], ids=repr)
def test_bad_ddof(make, ddof):
    with pytest.raises((SpecError, TypeError), match="ddof"):
        make("x", ddof=ddof)


def test_the_errors_are_value_errors_of_one_family():
    assert issubclass(SpecError, (MtaError, ValueError)) and issubclass(DataError, ValueError)
    assert issubclass(ColumnError, DataError) and issubclass(ColumnError, KeyError)
    with pytest.raises(ValueError, match="range"):
        mta.rolling("0s", on="t")


# ---- input -----------------------------------------------------------------------------------

GOOD = {
    "t": ("timestamp[us]", [3, 1, 2, 2]),
    "n": ("int64", [3, 1, 2, 2]),
    "k": ("string", ["a", "b", "a", None]),
    "x": ("float64", [1.0, 2.0, None, 4.0]),
    "s": ("string", ["1", "2", "3", "x"]),
}
RUN = mta.rolling("1h", on="t", by="k").agg(total=agg.sum("x"))


def refused(run, frame, error=DataError, says=()):
    """The call raises, says what it should, and leaves the frame alone."""
    before = copy.deepcopy(frame)
    with pytest.raises(error) as caught:
        run(frame)
    for word in says:
        assert word.lower() in str(caught.value).lower(), f"{word!r} not in {str(caught.value)!r}"
    if isinstance(frame, dict):
        assert {c: repr(v) for c, v in frame.items()} == {c: repr(v) for c, v in before.items()}
    else:
        assert frame.equals(before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["t", "k", "x"])
def test_missing_column(kind, column):
    frame = build(kind, {name: c for name, c in GOOD.items() if name != column})
    refused(RUN, frame, ColumnError, [f"'{column}'"])


def test_the_message_of_a_missing_column_reads_well():
    with pytest.raises(ColumnError) as caught:
        RUN(build("pandas", {"t": GOOD["t"], "k": GOOD["k"], "X": GOOD["x"]}))
    assert "X" in str(caught.value), "the columns that are there help to find a typing error"
    assert not str(caught.value).startswith(("'", '"')), "a sentence, not a KeyError's repr"


@pytest.mark.parametrize("kind", KINDS)
def test_duration_over_an_integer_column(kind):
    run = mta.rolling("1h", on="n").agg(m=agg.count())
    refused(run, build(kind, GOOD), (DataError, SpecError), ["'n'", "integer", "i'"])


@pytest.mark.parametrize("kind", KINDS)
def test_ticks_over_a_timestamp_column(kind):
    run = mta.rolling("5i", on="t").agg(m=agg.count())
    refused(run, build(kind, GOOD), (DataError, SpecError), ["'t'", "5i"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("range_", ["1h", "5i", 3, None])
@pytest.mark.parametrize("column", ["s", "x"])
def test_a_column_that_is_no_time(kind, range_, column):
    frame = build(kind, GOOD | {"x": ("float64", [1.0, 2.0, 3.0, 4.0])})
    refused(mta.rolling(range_, on=column).agg(m=agg.count()), frame, says=[f"'{column}'"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("type_", "range_"), [("bool", "5i"), ("duration[s]", "5s")])
def test_booleans_and_durations_are_no_times(kind, type_, range_):
    frame = build(kind, {"t": (type_, [True, False] if type_ == "bool" else [1, 0])})
    run = mta.rolling(range_, on="t").agg(m=agg.count())
    refused(run, frame, says=["'t'", "times"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("range_", ["1h", 3, None])
def test_null_time(kind, range_):
    frame = build(kind, {"t": ("timestamp[us]", [5, 4, None, 3, None]), "x": ("int64", [1] * 5)})
    run = mta.rolling(range_, on="t").agg(total=agg.sum("x"))
    refused(run, frame, says=["'t'", "row 2", "2 "])


@pytest.mark.parametrize("kind", KINDS)
def test_null_tick(kind):
    frame = build(kind, {"t": ("int64", [5, None, 3]), "x": ("int64", [1] * 3)})
    refused(mta.rolling("3i", on="t").agg(total=agg.sum("x")), frame, says=["'t'", "row 1", "1 "])


def test_ticks_beyond_int64():
    frame = {"t": np.array([1, 2**63], np.uint64)}
    refused(mta.rolling("3i", on="t").agg(m=agg.count()), frame, says=["'t'", "row 1"])


def test_time_of_python_objects_that_are_no_times():
    times = pd.Series([dt.datetime(2024, 1, 1), "yesterday", dt.datetime(2024, 1, 2)], dtype=object)
    refused(mta.rolling("1h", on="t").agg(m=agg.count()), pd.DataFrame({"t": times}), says=["'t'"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [agg.sum, agg.mean, agg.var, agg.std])
@pytest.mark.parametrize("column", ["s", "t"])
def test_arithmetic_on_values_that_are_no_numbers(kind, make, column):
    refused(mta.rolling(3).agg(total=make(column)), build(kind, GOOD), says=[f"'{column}'"])


def test_values_without_an_order_or_a_sum():
    frame = {"z": np.array([1 + 2j, 3.0]), "o": np.array([1, "x"], dtype=object)}
    refused(mta.rolling(3).agg(m=agg.max("z")), frame, says=["'z'"])
    refused(mta.rolling(3).agg(m=agg.sum("o")), frame, says=["'o'"])
    nested = pa.table({"l": [[1], [2]]})
    refused(mta.rolling(3).agg(m=agg.sum("l")), nested, says=["'l'"])


def test_keys_that_can_not_be_told_apart():
    run = mta.rolling(3, by="l").agg(m=agg.count())
    for values in ([[1], [2]], [{"a": 1}, {"a": 2}], [[None], None]):
        table = pa.table({"l": values})
        wrapped = pd.arrays.ArrowExtensionArray(table["l"])
        objects = np.array([*values, None], dtype=object)
        refused(run, table, says=["'l'", str(table["l"].type)])
        refused(run, pl.DataFrame({"l": values}), says=["'l'"])
        refused(run, pd.DataFrame({"l": values}), says=["'l'", type(values[0]).__name__])
        refused(run, pd.DataFrame({"l": wrapped}), says=["'l'"])
        refused(run, {"l": objects}, says=["'l'", "row 0"])


@pytest.mark.parametrize("values", [[1, 2**70], [2**63, -1], [2**64]], ids=repr)
def test_integers_beyond_64_bits_in_object_columns(values):
    """No column type holds them all: refused, not rounded to doubles."""
    frame = {"x": np.array(values, dtype=object)}
    with pytest.raises((DataError, OverflowError), match="x"):
        mta.rolling(3).agg(m=agg.max("x"))(frame)


# ---- things that are no frames -----------------------------------------------------------------


def test_columns_of_different_length():
    refused(RUN, build("dict", GOOD) | {"x": np.ones(3)}, says=["'x'", "3", "4"])


@pytest.mark.parametrize("bad", [np.ones((4, 2)), np.float64(1)], ids=["2-d", "0-d"])
def test_columns_that_are_no_columns(bad):
    frame = build("dict", GOOD) | {"x": bad}
    with pytest.raises((DataError, TypeError), match="'x'"):
        RUN(frame)


@pytest.mark.parametrize(
    "thing", [3, "frame", None, [1, 2], np.ones(3), pd.Series([1.0]), pl.Series([1])], ids=repr
)
def test_things_that_are_no_frames(thing):
    with pytest.raises(DataError):
        mta.rolling(3).agg(m=agg.count())(thing)


def test_a_pandas_column_name_used_twice():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    refused(mta.rolling(3).agg(m=agg.sum("x")), frame, says=["'x'"])


def test_an_error_leaves_the_spec_usable():
    frame = build("pyarrow", GOOD)
    refused(RUN, frame.drop_columns(["x"]), ColumnError)
    assert [row["total"] for row in read(RUN(frame))] == [1.0, 2.0, 0.0, 4.0]
