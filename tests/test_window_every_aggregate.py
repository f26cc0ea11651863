"""``mta.Window`` with every aggregate: the answers of ``rolling`` to the last bit, at a cost that
does not depend on how long the window is."""

from __future__ import annotations

import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import DataError, SnapshotError
from mta.functions import FUNCTIONS
from mta.snapshot import seal, unseal
from oracle import Agg, differences
from oracle import aggregate as by_definition
from strategies import (
    ALGEBRAIC,
    GATHERED,
    HOLISTIC,
    INTS,
    NUMERIC,
    RANKS,
    SELECTIONS,
    SKETCHED,
    SMALL_INTS,
    TALLIES,
    TAMER_FLOATS,
    WILD_FLOATS,
    aggregates,
    data,
    engine_agg,
)

FAMILIES = {
    "numeric": (NUMERIC, WILD_FLOATS, INTS),
    "selections": (SELECTIONS, WILD_FLOATS, INTS),
    "algebraic": (ALGEBRAIC, TAMER_FLOATS, SMALL_INTS),
    "ranks": (RANKS, WILD_FLOATS, INTS),
    "tallies": (TALLIES, WILD_FLOATS, SMALL_INTS),
    "gathered": (GATHERED, WILD_FLOATS, INTS),
    "sketched": (SKETCHED, WILD_FLOATS, SMALL_INTS),
}
NUMERICS = ("compensated", "exact", "fast")
OVERFLOW = ("raise", "wrap", "float")
FEWER = settings(max_examples=settings.default.max_examples // 4)  # of each family
GAPS = st.lists(st.sampled_from([0, 0, 1, 1, 1, 2, 9]), min_size=60, max_size=60)


@st.composite
def pushes(draw, family, max_size=40):
    """Aggregates of a family, and rows for them with times that never fall."""
    fns, floats, ints = FAMILIES[family]
    aggs = draw(aggregates(fns, numerics=NUMERICS, overflow=OVERFLOW))
    # A pushed boolean is the number 0 or 1 to whatever orders it.
    bools = ("approx_quantile", "b")
    aggs = {n: a._replace(col="i") if (a.fn, a.col) == bools else a for n, a in aggs.items()}
    sample = draw(data(floats=floats, ints=ints, max_size=max_size))
    clock = np.cumsum(draw(GAPS))[: len(sample.rows)].tolist()
    rows = [row | {"clock": now} for row, now in zip(sample.rows, clock, strict=True)]
    return aggs, rows, sample.columns | {"clock": ("int64", clock)}


def used(aggs, rows, *more):
    """The rows with the columns that the aggregates read."""
    names = {name for a in aggs.values() for name in (a.col, a.other) if name} | set(more)
    return [{name: row[name] for name in names} for row in rows]


def bits(value):
    if isinstance(value, list):
        return [bits(item) for item in value]
    return "0" if value == 0 and not isinstance(value, str) else repr(value)


def same_answers(spec, columns, window, rows):
    """Every push gives what `spec` gives for the row; where that fails, so does one push."""
    try:
        rolled = read(spec(build("pyarrow", columns)))
    except OverflowError:
        with pytest.raises(OverflowError):
            [window.push(row) for row in rows]
        return
    for row, expected in zip(rows, rolled, strict=True):
        got = window.push(row)._asdict()
        assert {n: bits(v) for n, v in got.items()} == {n: bits(v) for n, v in expected.items()}


@pytest.mark.parametrize("family", FAMILIES)
@FEWER
@given(st.data(), st.integers(1, 30))
def test_row_windows_equal_rolling_bit_for_bit(family, draw, n):
    aggs, rows, columns = draw.draw(pushes(family))
    made = {name: engine_agg(a) for name, a in aggs.items()}
    window = mta.Window(made, mta.last(n))
    same_answers(mta.rolling(n).agg(**made), columns, window, used(aggs, rows))


@pytest.mark.parametrize("family", FAMILIES)
@FEWER
@given(st.data(), st.integers(1, 20))
def test_time_windows_equal_rolling_bit_for_bit(family, draw, length):
    aggs, rows, columns = draw.draw(pushes(family))
    made = {name: engine_agg(a) for name, a in aggs.items()}
    window = mta.Window(made, mta.last(f"{length}i", on="clock"))
    spec = mta.rolling(f"{length}i", on="clock", ties="arrival").agg(**made)
    same_answers(spec, columns, window, used(aggs, rows, "clock"))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "numeric"])
@FEWER
@given(st.data(), st.lists(st.sampled_from(["insert", "insert", "evict", "ask", "push"])))
def test_rows_that_come_and_go_by_hand(family, draw, steps):
    """Whatever has come and gone since the last answer."""
    aggs, rows, _ = draw.draw(pushes(family))
    # A product of integers that does not fit has a test of its own.
    aggs = {n: a for n, a in aggs.items() if (a.fn, a.col) != ("product", "i")}
    aggs["n"] = Agg("count_all")
    window = mta.Window({name: engine_agg(a) for name, a in aggs.items()}, mta.last(4))
    inside, rest = [], iter(zip(rows, used(aggs, rows), strict=True))
    for step in steps:
        row, given_row = next(rest, (None, None)) if step in ("insert", "push") else (None, None)
        if step == "evict" and inside:
            amount = draw.draw(st.integers(1, len(inside)))
            window.evict(amount)
            del inside[:amount]
        elif row is not None:
            (window.push if step == "push" else window.insert)(given_row)
            inside = [*inside, row] if step == "insert" else [*inside, row][-4:]
        if step == "ask":
            expected = {name: by_definition(a, inside) for name, a in aggs.items()}
            assert not (wrong := differences([window.result()._asdict()], [expected])), wrong


@pytest.mark.parametrize("family", FAMILIES)
@FEWER
@given(st.data(), st.integers(1, 12))
def test_a_restored_window_goes_on_exactly(family, draw, n):
    aggs, rows, _ = draw.draw(pushes(family))
    made = {
        name: engine_agg(a) for name, a in aggs.items() if a.overflow != "raise" or not is_int(a)
    }
    made["n"] = agg.count()
    rows, here = used(aggs, rows), draw.draw(st.integers(0, len(rows)))
    window, policy = mta.Window(made, mta.last(n)), mta.last(n)
    try:
        for row in rows[:here]:
            window.push(row)
        again = mta.Window.from_bytes(window.to_bytes(), made, policy)
        assert again.to_bytes() == window.to_bytes()
        for row in rows[here:]:
            assert repr(again.push(row)) == repr(window.push(row))
        assert again.to_bytes() == window.to_bytes()
    except OverflowError:
        pass


def is_int(a):
    return a.col == "i" and a.fn in ("sum", "product")


# ---- long windows ----------------------------------------------------------------------------

LONG = {
    "q1": agg.quantile("x", 0.1), "q2": agg.quantile("x", 0.77, interp="nearest"),
    "med": agg.median("x", interp="midpoint"), "top": agg.top_k("x", 4),
    "gmed": agg.median("x", nan="greatest"), "smed": agg.median("x", nan="skip"),
    "imed": agg.median("i"), "itop": agg.top_k("i", 3),
    "low": agg.quantile("i", 0.3, interp="lower"),
    "nd": agg.count_distinct("i"), "mode": agg.mode("i"), "common": agg.most_common("i", 3),
    "am": agg.arg_max("x"), "first": agg.first("x", order="i"), "skew": agg.skew("x", nan="skip"),
    "gm": agg.geometric_mean("x"), "corr": agg.corr("x", "i"), "run": agg.longest_run("x"),
    "exact": agg.sum("x", nan="skip", numerics="exact"), "fast": agg.sum("x", numerics="fast"),
    "wide": agg.sum("i", overflow="wrap"),
}  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 16, 63, 64, 65, 257, 1500])
def test_long_series_equal_rolling_bit_for_bit(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=4000)
    x[rng.random(4000) < 0.004] = math.nan
    i = rng.integers(-30, 30, 4000)
    window = mta.Window(LONG, mta.last(n))
    rows = [{"x": a, "i": b} for a, b in zip(x.tolist(), i.tolist(), strict=True)]
    columns = {"x": ("float64", x.tolist()), "i": ("int64", i.tolist())}
    same_answers(mta.rolling(n).agg(**LONG), columns, window, rows)


EACH = {
    "median": agg.median("x"), "median, NaN skipped": agg.median("x", nan="skip"),
    "several": {f"q{k}": agg.quantile("x", k / 7) for k in range(1, 6)}, "top": agg.top_k("x", 5),
    "distinct": agg.count_distinct("x"), "mode": agg.mode("x"), "common": agg.most_common("x", 5),
    "first": agg.first("x"), "last": agg.last("x"), "arg_min": agg.arg_min("x"),
    "kurt": agg.kurt("x"), "product": agg.product("x"), "run": agg.longest_run("x"),
    "skew": agg.skew("x", nan="skip"),
    "exact": agg.sum("x", numerics="exact"), "fast": agg.mean("x", numerics="fast"),
    "user": agg.monoid(float, max, float, -math.inf)("x"),
}  # fmt: skip


def cost(aggs, n):
    """Seconds that 400 pushes take into a window of n rows, once it has been asked."""
    rng = np.random.default_rng(n)
    window = mta.Window(aggs, mta.last(n))
    window.insert(math.nan)
    for x in rng.normal(size=n).tolist():
        window.insert(x)
    fresh = rng.normal(size=2000).tolist()
    window.push(fresh[0])
    took = []
    for start in range(0, 2000, 400):
        begun = time.process_time()
        for x in fresh[start : start + 400]:
            window.push(x)
        took.append(time.process_time() - begun)
    return min(took)


@pytest.mark.parametrize("name", EACH)
def test_a_push_costs_no_more_where_the_window_is_long(name):
    """200 times as long: going through the rows inside would take far more than 20 times."""
    assert cost(EACH[name], 60_000) < 20 * cost(EACH[name], 300)


@pytest.mark.parametrize("by_hand", [False, True])
def test_memory_is_bounded_by_the_window(by_hand):
    """Also where nobody ever asks."""
    window = mta.Window({"m": agg.median("x"), "mode": agg.mode("x")}, mta.last(1000))

    def run(times):
        for k in range(times):
            if by_hand and len(window) == 1000:
                window.evict()
            (window.insert if by_hand else window.push)(k * 0.5)

    run(3000)
    tracemalloc.start()
    run(3000)
    before = tracemalloc.get_traced_memory()[1]
    run(30_000)
    after = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert after < 2 * before + 100_000
    assert window.result() == (window.result().m, window.result().mode) and len(window) == 1000


# ---- what only some aggregates do ------------------------------------------------------------


def test_truths():
    window = mta.Window({"any": agg.any("b"), "all": agg.all("b")}, mta.last(2))
    given_truths = [True, False, None, np.bool_(False), np.True_]
    got = [tuple(window.push(b=b)) for b in given_truths]
    assert got == [(True, True), (True, False), (False, False), (False, False), (True, False)]
    assert all(type(x) is bool for answers in got for x in answers)
    with pytest.raises(DataError, match="not a boolean"):
        window.push(b=1)
    assert len(window) == 2


@pytest.mark.parametrize("aggregate", [
    agg.sum("x", numerics="exact"), agg.product("x"), agg.sum("x"),
], ids=repr)  # fmt: skip
def test_an_answer_that_does_not_fit_is_back_once_it_does(aggregate):
    window = mta.Window({"a": aggregate, "m": agg.median("x")}, mta.last(2))
    plain = {"sum": sum, "product": math.prod}[aggregate.fn]
    values = [2**62, 1, 2**62, 2**62, 3, 2**61, 2, 5]
    for k, x in enumerate(values):
        inside = values[max(k - 1, 0) : k + 1]
        if plain(inside) < 2**63:
            assert window.push(x).a == plain(inside)
        else:
            with pytest.raises(OverflowError, match="a: "):
                window.push(x)


@example([1, 2, 3, 0.5])
@example([2**53, 0.5, 2**53])
@given(st.lists(st.one_of(st.integers(-5, 2**53), st.floats(-5, 5)), max_size=30))
def test_integers_that_become_floats_keep_their_ranks(values):
    made = {
        "m": agg.median("x"),
        "t": agg.top_k("x", 3),
        "s": agg.skew("x"),
        "n": agg.count_distinct("x"),
    }
    floats = [float(v) for v in values]
    rolled = read(mta.rolling(4).agg(**made)(build("pyarrow", {"x": ("float64", floats)})))
    window = mta.Window(made, mta.last(4))
    for k, (v, expected) in enumerate(zip(values, rolled, strict=True)):
        got = window.push(x=v)
        # The third power of integers has more digits than that of the doubles that they are.
        assert (got.m, got.t, got.n) == (expected["m"], expected["t"], expected["n"]), values[
            : k + 1
        ]


def test_a_policy_of_ones_own_sees_every_aggregate():
    made = {"med": agg.median("x"), "n": agg.count(), "d": agg.count_distinct("x")}
    window = mta.Window(made, lambda total, old: total.d - old.d >= 3)
    inside = []
    for x in np.random.default_rng(1).integers(0, 9, 200).tolist():
        inside.append(x)
        gone = max((k for k in range(1, len(inside) + 1)
                    if len(set(inside)) - len(set(inside[:k])) >= 3), default=0)  # fmt: skip
        del inside[:gone]
        answer = window.push(x)
        assert answer == (np.median(inside), len(inside), len(set(inside)))


def test_a_snapshot_with_other_marks_is_refused():
    window = mta.Window(agg.skew("x"), mta.last(3))
    for x in (1.0, 2.0, 5.0, 7.0):
        window.push(x)
    spec = repr((((agg.skew("x").default_name, agg.skew("x")),), mta.last(3)))
    parts = unseal("window", spec, window.to_bytes())
    for wrong in ([], [[]], [[1, 2]], [["1"]], [[2**63]], [[1], [1]], {}, 3):
        data_ = seal("window", spec, [*parts[:-1], json.dumps(wrong).encode()])
        with pytest.raises(SnapshotError):
            mta.Window.from_bytes(data_, agg.skew("x"), mta.last(3))


def test_the_families_name_every_function():
    named = {fn for fns, _, _ in FAMILIES.values() for fn in fns} | {"count", "count_all", "monoid"}
    named |= {fn for fn, how in FUNCTIONS.items() if how.gives == "bytes"}  # test_window_sketches
    assert set(FUNCTIONS) <= named and set(HOLISTIC) <= named
