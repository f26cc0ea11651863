"""Time columns and ranges in every unit, with and without zone, near and far from the epoch."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import KINDS, build, read
from mta import agg
from mta.errors import DataError
from oracle import Agg, Rolling, answers, differences
from strategies import CLOSED, engine_spec

NANOSECONDS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
NANOSECONDS |= {"d": 86400 * 10**9, "w": 7 * 86400 * 10**9}
COLUMN_UNITS = ("s", "ms", "us", "ns")
AGGS = {"n": Agg("count"), "s": Agg("sum", "i")}


def check(kind, type_, ticks, tick, range_, closed="right", lag=None):
    """The engine against the oracle on ticks of ``tick`` nanoseconds; edges are in nanoseconds."""
    value, unit = range_
    lag_value, lag_unit = lag or (0, "ns")
    columns = {"t": (type_, ticks), "i": ("int64", [1 << n for n in range(len(ticks))])}
    rows = [{"t": t * tick, "i": 1 << n} for n, t in enumerate(ticks)]
    exact = Rolling(
        AGGS, "time", value * NANOSECONDS[unit], "t",
        closed=closed, lag=lag_value * NANOSECONDS[lag_unit],
    )  # fmt: skip
    run = mta.rolling(
        f"{value}{unit}", on="t", closed=closed, lag=f"{lag_value}{lag_unit}" if lag else None
    ).agg(n=agg.count(), s=agg.sum("i"))
    wrong = differences(read(run(build(kind, columns))), answers(exact, rows))
    assert not wrong, "\n".join(wrong)


@given(
    st.sampled_from(KINDS),
    st.sampled_from(COLUMN_UNITS),
    st.sampled_from(["", ", UTC", ", Europe/Paris", ", America/New_York"]),
    st.lists(st.integers(-9, 9), max_size=8),
    st.integers(1, 9),
    st.sampled_from(CLOSED),
)
def test_every_column_unit_and_zone(kind, unit, zone, ticks, length, closed):
    if kind == "dict" and zone:
        zone = ""  # NumPy has no zones
    check(kind, f"timestamp[{unit}{zone}]", ticks, NANOSECONDS[unit], (length, unit), closed)


@given(
    st.sampled_from(["pandas", "polars", "pyarrow", "dict"]),
    st.sampled_from(COLUMN_UNITS),
    st.sampled_from(list(NANOSECONDS)),
    st.lists(st.integers(-(10**6), 10**6), max_size=10),
    st.integers(1, 3000),
    st.sampled_from(CLOSED),
    st.none() | st.tuples(st.integers(-2000, 2000), st.sampled_from(list(NANOSECONDS))),
)
def test_the_range_may_be_in_another_unit_than_the_column(
    kind, column_unit, unit, ticks, length, closed, lag
):
    """1500 ns over a column of microseconds is one and a half ticks, not one or two."""
    if lag and lag[0] == 0:
        lag = None
    tick = NANOSECONDS[column_unit]
    check(kind, f"timestamp[{column_unit}]", ticks, tick, (length, unit), closed, lag)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_times_too(kind):
    check(kind, "date", [3, 1, 1, 2, -4, 7], NANOSECONDS["d"], (2, "d"))


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("step", [1, 2, 25])
@pytest.mark.parametrize("order", "<>")
def test_units_of_numpy_with_any_step(unit, step, order):
    times = (
        np.array([3, 1, 2, -7], "i8").view(f"M8[{step}{unit}]").astype(f"{order}M8[{step}{unit}]")
    )
    span = np.timedelta64(2 * step, unit)
    spec = mta.rolling(span, on="t").agg(s=agg.sum("i"), last=agg.max("t"))
    got = spec({"t": times, "i": np.array([1, 2, 4, 8])})
    assert got["s"].tolist() == [5, 2, 6, 8]
    assert got["last"].dtype == times.dtype and (got["last"] == times).all()


@pytest.mark.parametrize("unit", ["M", "Y"])
def test_months_and_years_of_numpy(unit):
    """They are instants like others; only a range can't be one of months."""
    times = np.array(["2024-02", "2024-01", "2023-03"], f"M8[{unit}]")
    got = mta.rolling("366d", on="t").agg(n=agg.count())({"t": times})
    assert got["n"].tolist() == {"M": [3, 2, 1], "Y": [3, 3, 1]}[unit]


@pytest.mark.parametrize("unit", ["ps", "fs", "as"])
def test_units_finer_than_nanoseconds_are_refused(unit):
    with pytest.raises(DataError, match="'t'"):
        mta.rolling("1s", on="t").agg(n=agg.count())({"t": np.array([1, 2], f"M8[{unit}]")})


def test_days_beyond_nanoseconds():
    """Coarse units are told in seconds, where all of history fits."""
    times = np.array(["-9999-01-01", "9999-01-01", "NaT"], "M8[D]")
    assert mta.rolling("1h", on="t").agg(n=agg.count())({"t": times[:2]})["n"].tolist() == [1, 1]
    with pytest.raises(DataError, match=r"'t'.*row 2"):
        mta.rolling("1d", on="t").agg(n=agg.count())({"t": times})


def test_dates_take_hours():
    check("pyarrow", "date", [0, 1, 2], NANOSECONDS["d"], (36, "h"))


@pytest.mark.parametrize(
    "range_",
    [
        "90m", "5400s", "5400000ms", dt.timedelta(hours=1.5), pd.Timedelta("90min"),
        np.timedelta64(90, "m"), np.timedelta64(5400, "s"), np.timedelta64(5_400_000_000_000, "ns"),
    ],
    ids=repr,
)  # fmt: skip
def test_one_duration_in_many_spellings(range_):
    columns = {"t": ("timestamp[s]", [0, 3600, 5400, 9000]), "i": ("int64", [1, 2, 4, 8])}
    result = mta.rolling(range_, on="t").agg(s=agg.sum("i"))(build("pyarrow", columns))
    assert result["s"].to_pylist() == [1, 3, 6, 12]


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("1d", 86400), ("1w", 604800)])
def test_durations_of_words(text, seconds):
    columns = {"t": ("timestamp[s]", [0, seconds - 1, seconds]), "i": ("int64", [1, 2, 4])}
    result = mta.rolling(text, on="t").agg(s=agg.sum("i"))(build("pyarrow", columns))
    assert result["s"].to_pylist() == [1, 3, 6]


def test_a_day_across_a_change_of_the_clock_is_24_hours():
    """Trailing ranges are durations: instants decide, not what the wall clock shows."""
    zone = "Europe/Paris"
    times = pd.to_datetime(["2023-03-25 12:00", "2023-03-26 12:00", "2023-03-26 13:00"])
    frame = pd.DataFrame({"t": times.tz_localize(zone), "i": [1, 2, 4]})
    got = mta.rolling("24h", on="t").agg(s=agg.sum("i"))(frame)["s"].tolist()
    assert got == [1, 3, 6]
    repeated = pd.to_datetime(["2023-10-29 00:30Z", "2023-10-29 01:30Z"]).tz_convert(zone)
    frame = pd.DataFrame({"t": repeated, "i": [1, 2]})  # 02:30 on the clock, both of them
    assert mta.rolling("1h", on="t").agg(s=agg.sum("i"))(frame)["s"].tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["dict", "pyarrow"])
def test_integer_ticks_at_the_ends_of_int64(kind):
    low, high = -(2**63), 2**63 - 1
    ticks = [high, low, low + 1, high - 1, 0, high, low]
    for closed in CLOSED:
        for length in (1, 10, 2**62, 2**63 - 1):
            for lag in (0, 10, -10):
                spec = Rolling(AGGS, "time", length, "t", closed=closed, lag=lag)
                rows = [{"t": t, "i": 1 << n} for n, t in enumerate(ticks)]
                columns = {"t": ("int64", ticks), "i": ("int64", [r["i"] for r in rows])}
                got = read(engine_spec(spec)(build(kind, columns)))
                wrong = differences(got, answers(spec, rows))
                assert not wrong, f"{spec}\n" + "\n".join(wrong)


@pytest.mark.parametrize("type_", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_narrow_integer_ticks_do_not_wrap(type_):
    top = np.iinfo(type_).max
    ticks = [0, top, top - 1, 5]
    spec = Rolling(AGGS, "time", 100_000, "t")
    rows = [{"t": t, "i": 1 << n} for n, t in enumerate(ticks)]
    columns = {"t": (type_, ticks), "i": ("int64", [1, 2, 4, 8])}
    assert not differences(read(engine_spec(spec)(build("dict", columns))), answers(spec, rows))


def test_a_unit_too_fine_for_far_dates_never_wraps():
    """Year 9999 in microseconds does not fit int64 nanoseconds: right answers or an error."""
    far = int(dt.datetime(9999, 12, 31, tzinfo=dt.timezone.utc).timestamp()) * 10**6
    columns = {"t": ("timestamp[us]", [far, far + 1, far + 2]), "i": ("int64", [1, 2, 4])}
    for text, expected in (("2us", [1, 3, 6]), ("1500ns", [1, 3, 6]), ("2001ns", [1, 3, 7])):
        try:
            got = mta.rolling(text, on="t").agg(s=agg.sum("i"))(build("pyarrow", columns))
        except (mta.errors.MtaError, OverflowError):
            assert not text.endswith("us"), "microseconds fit"
        else:
            assert got["s"].to_pylist() == expected


def test_a_huge_range_is_everything_so_far():
    columns = {"t": ("timestamp[ns]", [-(2**62), 0, 2**62]), "i": ("int64", [1, 2, 4])}
    got = mta.rolling("100000d", on="t").agg(s=agg.sum("i"))(build("pyarrow", columns))
    assert got["s"].to_pylist() == [1, 3, 6]
    try:
        got = mta.rolling("200000d", on="t").agg(s=agg.sum("i"))(build("pyarrow", columns))
    except (mta.errors.MtaError, OverflowError):
        return  # longer than int64 nanoseconds: refusing is right too, wrapping is not
    assert got["s"].to_pylist() == [1, 3, 7]
