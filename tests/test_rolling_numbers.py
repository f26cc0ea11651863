"""The numbers of ``rolling``: nothing drifts, nothing sticks, nothing wraps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from oracle import (
    Agg,
    Exact,
    Rolling,
    answers,
    differences,
    matches,
    nearest_double,
    nearest_sqrt,
    sum_bound,
    variance,
)
from strategies import HUGE_FLOATS, INTS, SPECIAL_FLOATS, data, engine_spec, rollings

EVERY = {fn: Agg(fn, "x") for fn in ("count", "sum", "mean", "min", "max", "var", "std")}
TOP = 2**63 - 1


def run(values, n, fns=tuple(EVERY), dtype=None):
    """Answers over the last n rows, by name."""
    spec = mta.rolling(n).agg(**{fn: getattr(agg, fn)("x") for fn in fns})
    return spec({"x": np.asarray(values, dtype)})


def check(values, n, type_="float64", fns=tuple(EVERY)):
    """Answers over the last n rows against the oracle."""
    spec = Rolling({fn: EVERY[fn] for fn in fns}, "rows", n)
    got = read(engine_spec(spec)(build("pyarrow", {"x": (type_, values)})))
    wrong = differences(got, answers(spec, [{"x": v} for v in values]))
    assert not wrong, "\n".join(wrong)


# ---- what left leaves no trace ---------------------------------------------------------------


@pytest.mark.parametrize(
    "spike", [1e16, -9e33, 1e90, 1e200, -1e300, math.inf, -math.inf, math.nan, 5e-324]
)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_after_a_spike_left_answers_are_as_if_it_never_came(spike, n):
    rng = np.random.default_rng(1)
    calm = rng.normal(size=64)
    spiked = calm.copy()
    spiked[[7, 8, 23, 40]] = spike
    fns = tuple(EVERY)
    without, with_ = run(calm, n, fns), run(spiked, n, fns)
    clean = np.array([not np.any(spiked[max(0, i - n + 1) : i + 1] == spike) for i in range(64)])
    if math.isnan(spike):
        clean = np.array([not np.isnan(spiked[max(0, i - n + 1) : i + 1]).any() for i in range(64)])
    for fn in fns:
        np.testing.assert_array_equal(with_[fn][clean], without[fn][clean], strict=True)


@given(data(floats=HUGE_FLOATS, max_size=20), rollings(fns=("sum", "mean", "min", "max")))
def test_sums_of_any_magnitude(sample, spec):
    got = read(engine_spec(spec)(build("pyarrow", sample.columns)))
    wrong = differences(got, answers(spec, sample.rows))
    assert not wrong, "\n".join(wrong)


def test_a_long_series_does_not_drift():
    """A million rows with spikes of every size; the last windows against exact sums."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=1_000_000) * 10.0 ** rng.integers(-8, 8, size=1_000_000)
    values[rng.integers(0, 990_000, size=1000)] = 1e250
    n = 1000
    got = run(values, n, ("sum", "mean", "var", "std"))
    for i in (999_999, 995_000, 991_500):
        window = values[i - n + 1 : i + 1].tolist()
        exact = sum(map(Fraction, window))
        assert matches(float(got["sum"][i]), Exact(exact, sum_bound(window)))
        assert matches(float(got["mean"][i]), Exact(exact / n, sum_bound(window) / n))
        var = variance(window, 1)
        assert matches(float(got["var"][i]), Exact(var, var / 10**12))


@given(
    st.lists(st.floats(-1e30, 1e30).filter(lambda x: x == 0 or abs(x) > 1e-30), max_size=40),
    st.lists(st.floats(-1, 1).filter(lambda x: x == 0 or abs(x) > 1e-60), max_size=5),
    st.randoms(use_true_random=False),
)
def test_sums_that_cancel(values, rest, random):
    """Everything but a little remainder cancels: what is left has to be right all the same."""
    mixed = values + [-v for v in values] + rest
    random.shuffle(mixed)
    check(mixed, max(1, len(mixed)), fns=("sum", "mean"))


@pytest.mark.parametrize("make", [
    lambda rng: rng.normal(1e9, 1, 40_000),
    lambda rng: rng.choice([-1, 1], 40_000) * rng.lognormal(0, 6, 40_000),
    lambda rng: rng.integers(2**62, 2**62 + 1000, 40_000),
    lambda rng: np.concatenate([[1e100], rng.normal(size=39_999)]),
], ids=["N(1e9,1)", "lognormal", "integers", "outlier first"])  # fmt: skip
def test_variance_of_everything_so_far(make):
    values = make(np.random.default_rng(11))
    got = mta.rolling(None).agg(v=agg.var("x"), s=agg.std("x"))({"x": values})
    for i in (1, 999, 20_000, 39_999):
        var = variance(values[: i + 1].tolist(), 1)
        assert matches(float(got["v"][i]), Exact(var, var / 10**12)), i
        std = Fraction(nearest_sqrt(var))
        assert matches(float(got["s"][i]), Exact(std, std / 10**12)), i


@pytest.mark.parametrize("make", [
    lambda rng, n: rng.normal(1e9, 1, n),
    lambda rng, n: rng.choice([-1, 1], n) * rng.lognormal(0, 6, n),
    lambda rng, n: 1.0 + rng.integers(0, 4, n) * 2.0**-52,
    lambda rng, n: 1e140 * (1 + rng.integers(0, 9, n) * 2.0**-50),
    lambda rng, n: np.where(rng.random(n) < 0.1, 1e100, rng.normal(size=n)),
], ids=["N(1e9,1)", "lognormal", "neighbours", "huge", "spikes"])  # fmt: skip
@pytest.mark.parametrize("n", [2, 7, 64, 300])
def test_variance_of_hard_data(make, n):
    values = make(np.random.default_rng(3), 900)
    got = run(values, n, ("var", "std"))
    for i in range(1, 900, 23 if n > 7 else 5):
        window = values[max(0, i - n + 1) : i + 1].tolist()
        var = variance(window, 1)
        assert matches(float(got["var"][i]), Exact(var, var / 10**12)), (i, window[:5])
        std = Fraction(nearest_sqrt(var))
        assert matches(float(got["std"][i]), Exact(std, std / 10**12)), (i, window[:5])


@given(
    st.sampled_from([0.1, 1.2, 3.3, 1e9 + 0.1, 2820376000.0, 1e149, 1e-139, -7e77]),
    st.integers(2, 70),
    st.lists(st.floats(-1e140, 1e140).filter(lambda x: x == 0 or abs(x) > 1e-130), max_size=40),
)
def test_all_equal_means_exactly_zero(value, n, before):
    values = before + [value] * (n + 3)
    got = run(values, n, ("var", "std", "mean", "min", "max"))
    assert got["var"][-4:].tolist() == got["std"][-4:].tolist() == [0.0] * 4
    assert got["mean"][-4:].tolist() == [value] * 4
    assert not np.any(got["var"] < 0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_zeros_keep_their_sign_where_only_one_kind_is_there(n):
    for zero in (0.0, -0.0):
        got = run([zero] * 6, n, ("min", "max"))
        for fn in ("min", "max"):
            assert [math.copysign(1, v) for v in got[fn].tolist()] == [math.copysign(1, zero)] * 6
    got = run([0.0, -0.0, 0.0, -0.0], 2, ("sum", "mean", "min", "max", "var"))
    assert all(np.all(column[1:] == 0) for column in got.values())
    assert not np.signbit(got["var"][1:]).any()


@given(st.lists(st.one_of(HUGE_FLOATS, SPECIAL_FLOATS).filter(lambda x: x is not None), min_size=1))
def test_a_window_of_one_row_is_that_row(values):
    got = run(values, 1, ("sum", "mean", "min", "max"))
    for fn in got:
        np.testing.assert_array_equal(got[fn], np.array(values))


def test_subnormals_are_not_flushed():
    tiny = 5e-324
    got = run([tiny, tiny, 3 * tiny, -tiny], 2, ("sum", "min", "max", "mean"))
    assert got["sum"].tolist() == [tiny, 2 * tiny, 4 * tiny, 2 * tiny]
    assert got["min"].tolist() == [tiny, tiny, tiny, -tiny]
    assert got["mean"].tolist() == [tiny, tiny, 2 * tiny, tiny]


# ---- integers --------------------------------------------------------------------------------


@given(data(ints=INTS, max_size=16), rollings(fns=("mean", "min", "max", "var", "std")))
def test_integers_of_any_size(sample, spec):
    spec = spec._replace(aggs={n: a._replace(col=a.col and "i") for n, a in spec.aggs.items()})
    got = read(engine_spec(spec)(build("pyarrow", sample.columns)))
    wrong = differences(got, answers(spec, sample.rows))
    assert not wrong, "\n".join(wrong)


@given(st.lists(INTS, max_size=20), st.integers(1, 6))
def test_integer_sums_are_exact_or_refused(values, n):
    spec = Rolling({"s": Agg("sum", "x")}, "rows", n)
    exact = answers(spec, [{"x": v} for v in values])
    frame = build("pyarrow", {"x": ("int64", values)})
    if all(-(2**63) <= row["s"].value <= TOP for row in exact):
        assert not differences(read(engine_spec(spec)(frame)), exact)
    else:
        with pytest.raises(OverflowError):
            engine_spec(spec)(frame)


def test_intermediate_sums_may_leave_int64():
    check([TOP, TOP, -TOP, -TOP, 5], 2, "int64", ("mean", "count"))
    got = run([TOP, TOP - 1, -TOP, -TOP], 4, ("mean",), np.int64)["mean"].tolist()
    assert got[1] == nearest_double(Fraction(2 * TOP - 1, 2))
    with pytest.raises(OverflowError, match="x"):
        run([TOP, 1, -1], 3, ("sum",), np.int64)
    assert run([TOP, 0, -1], 3, ("sum",), np.int64)["sum"].tolist() == [TOP, TOP, TOP - 1]
    assert run([-(2**63), 0], 2, ("sum",), np.int64)["sum"].tolist() == [-(2**63)] * 2


def test_overflow_names_the_answer_and_the_row():
    with pytest.raises(OverflowError, match=r"total(.|\n)*\b2\b"):
        mta.rolling(2).agg(total=agg.sum("x"))({"x": np.array([5, 1, TOP, 5, TOP])})


@pytest.mark.parametrize(
    "type_", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64", "int64"]
)
def test_narrow_integers_never_wrap_inside(type_):
    top, low = np.iinfo(type_).max, np.iinfo(type_).min
    fns = ("mean", "min", "max", "count", "var", "std")
    check([top, top, low, top, None, low, low], 3, type_, fns)
    if not type_.endswith("64"):
        check([top, top, low, top, None, low, low], 3, type_, ("sum",))


def test_unsigned_64_bit():
    big = 2**64 - 1
    check([big, big - 1, 0, 2**63], 2, "uint64", ("min", "max", "mean", "count"))
    check([TOP, 0, 5, 2**63 - 6], 2, "uint64", ("sum",))
    check([2**63, 2**63 - 1, 5], 2, "uint64", ("sum",))  # sums of unsigned are unsigned
    with pytest.raises(OverflowError):
        run([2**63, 2**63], 2, ("sum",), np.uint64)


def test_means_of_integers_above_2_to_the_53():
    check(
        [2**53 + 1, 2**53 + 1, 2**53 + 3, 2**62 + 1, 2**62 - 1, -(2**62) - 1], 2, "int64", ("mean",)
    )
    assert run([2**53 + 1, 2**53 + 3], 2, ("mean",), np.int64)["mean"][1] == 2**53 + 2


@given(st.lists(st.integers(2**62, 2**62 + 9), min_size=2, max_size=20), st.integers(2, 6))
def test_variance_of_integers_far_from_zero(values, n):
    check(values, n, "int64", ("var", "std"))


@pytest.mark.parametrize("base", [2**53, 2**53 + 1, 2**60 + 3, 2**63 - 12, -(2**63)])
@pytest.mark.parametrize("fn", ["var", "std"])
def test_variance_of_integers_that_are_no_doubles(base, fn):
    """They are taken as they are, not rounded to the nearest double first."""
    check([base + d for d in (0, 1, 3, 1, 11, 11, 11)], 3, "int64", (fn,))
    assert run([base, base + 1], 2, (fn,), np.int64)[fn][1] == (0.5 if fn == "var" else 0.5**0.5)
    check([base, 0, -base - 1, 5], 4, "int64", (fn,))


# ---- NaN modes, min_count, nulls -------------------------------------------------------------


@pytest.mark.parametrize("nan", ["propagate", "skip", "greatest"])
def test_nan_modes(nan):
    values = [1.0, math.nan, None, -math.inf, math.nan, math.nan, 2.0, math.inf, 3.0]
    spec = Rolling({fn: Agg(fn, "x", nan=nan) for fn in EVERY}, "rows", 2)
    got = read(engine_spec(spec)(build("pyarrow", {"x": ("float64", values)})))
    wrong = differences(got, answers(spec, [{"x": v} for v in values]))
    assert not wrong, "\n".join(wrong)


def test_nan_of_numpy_is_a_value_and_not_a_null():
    got = run([1.0, math.nan, 3.0], 1, ("count", "sum"))
    assert got["count"].tolist() == [1, 1, 1] and math.isnan(got["sum"][1])


@pytest.mark.parametrize("ddof", [0, 1, 2, 5])
def test_degrees_of_freedom(ddof):
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    spec = Rolling({"v": Agg("var", "x", ddof=ddof), "s": Agg("std", "x", ddof=ddof)}, "all")
    got = read(engine_spec(spec)(build("polars", {"x": ("float64", values)})))
    assert not differences(got, answers(spec, [{"x": v} for v in values]))


def test_one_column_many_options_at_once():
    """Aggregates that could share a state but must not share their options."""
    aggs = {
        f"{fn}_{nan}_{least}": Agg(fn, "x", least, nan)
        for fn in ("count", "sum", "min", "max", "std")
        for nan in ("propagate", "skip", "greatest")
        for least in (None, 2)
    }
    values = [1.0, math.nan, 3.0, None, None, 7.0, math.inf, 2.0, 2.0]
    spec = Rolling(aggs, "rows", 3)
    got = read(engine_spec(spec)(build("pyarrow", {"x": ("float64", values)})))
    wrong = differences(got, answers(spec, [{"x": v} for v in values]))
    assert not wrong, "\n".join(wrong)
