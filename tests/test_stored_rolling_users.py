"""Users' monoids, sketches and lists over windows larger than memory: as in memory, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from kinds import build
from mta import agg
from mta.stores import MemoryStore
from strategies import data
from test_stored_rolling import BLOCKS, call, edges, retried, same_as_in_memory, small, specs
from test_stream import cut, in_time
from test_stream_disorder import KINDS


# These are no monoids, though zero is an identity: what they answer tells in which order partials
# were combined, and how deep.
def lifted(x, i):
    return (float(x), i + 0.25, 1)


def combined(a, b):
    if a[2] == 0 or b[2] == 0:
        return b if a[2] == 0 else a
    return (a[0] * 0.5 + b[0], a[1] - b[1] * 0.75, max(a[2], b[2]) + 1)


def lowered(part):
    return part[0] + part[1] / 3.0 + part[2] * 1e-3


def lifted_dict(x, i):
    return {"part": lifted(x, i)}


def combined_dicts(a, b):
    return {"part": combined(a["part"], b["part"])}


def lowered_dict(part):
    return lowered(part["part"])


@cache
def monoids():
    """The same compiled, and through Python."""
    compiled = agg.monoid(lifted, combined, lowered, zero=(0.0, 0.0, 0), name="compiled")
    python = agg.monoid(
        lifted_dict, combined_dicts, lowered_dict, zero=lambda: {"part": (0.0, 0.0, 0)}, name="p"
    )
    return compiled, python


JOINED = agg.monoid(lambda s: s, lambda a, b: (a + b)[-9:], zero="", name="joined")


def user_aggs(draws):
    """These, and one over texts, with any options."""
    options = {
        "min_count": draws.draw(st.integers(0, 3)),
        "nan": draws.draw(st.sampled_from(["propagate", "skip"])),
    }
    compiled, python = monoids()
    some = {"c": compiled("x", "i", **options), "p": python("x", "i", **options)}
    return {**some, "s": JOINED("s", min_count=options["min_count"])}


def sketch_aggs(draws):
    """Sketches so small that chance and capacity matter: their bytes tell all they hold."""
    few = {"min_count": draws.draw(st.integers(0, 2))}
    some = {
        "kll": agg.kll_sketch("x", k=8, **few),
        "median": agg.approx_quantile("i", 0.5, k=8, **few),
        "hll": agg.hll_sketch("i", lg_k=4, **few),
        "theta": agg.theta_sketch("x", lg_k=5, **few),
        "n": agg.approx_count_distinct("x", lg_k=4, **few),
        "frequent": agg.frequent_items_sketch("i", max_items=6, **few),
        "top": agg.approx_top_k("x", 2, max_items=6, **few),
        "hll_s": agg.hll_sketch("s", lg_k=4, **few),
        "frequent_s": agg.frequent_items_sketch("s", max_items=6, **few),
    }
    names = draws.draw(st.sets(st.sampled_from(sorted(some)), min_size=1, max_size=4))
    return {name: some[name] for name in sorted(names)}


def list_aggs(draws):
    few = {"min_count": draws.draw(st.integers(0, 2))}
    return {"x": agg.list("x", **few), "i": agg.list("i", nan="skip"), "b": agg.list("b")}


KINDS_OF_AGGS = st.sampled_from([user_aggs, sketch_aggs, list_aggs])


def with_aggs(draws, make=None, times=1):
    """A spec of these aggregates, with windows so many times as long."""
    make = make or draws.draw(KINDS_OF_AGGS)
    spec = specs(draws, ("sum",))
    if isinstance(spec.range, int):
        spec = replace(spec, range=spec.range * times)
    return replace(spec, aggs=tuple(make(draws).items()))


def repeated(sample, times):
    """The rows over and over, in order of time."""
    order = sorted(range(len(sample.rows)), key=lambda i: sample.rows[i]["t"])
    columns = {
        name: (type_, [values[i] for i in order for _ in range(times)])
        for name, (type_, values) in sample.columns.items()
    }
    names = list(columns)
    by_row = zip(*(values for _, values in columns.values()), strict=True)
    return type(sample)([dict(zip(names, row, strict=True)) for row in by_row], columns)


# ---- as in memory ----------------------------------------------------------------------------


@given(data(max_size=40), st.sampled_from(KINDS), BLOCKS, st.data())
def test_users_monoids(sample, kind, block, draws):
    same_as_in_memory(with_aggs(draws, user_aggs), sample, kind, block, draws)


@settings(max_examples=40)
@given(data(max_size=10), st.sampled_from(KINDS), BLOCKS, st.data())
def test_sketches(sample, kind, block, draws):
    spec = with_aggs(draws, sketch_aggs, times=20)
    same_as_in_memory(spec, repeated(sample, 20), kind, block, draws)


@given(data(max_size=30), st.sampled_from(KINDS), BLOCKS, st.data())
def test_lists(sample, kind, block, draws):
    same_as_in_memory(with_aggs(draws, list_aggs), sample, kind, block, draws)


@pytest.mark.parametrize("width", [40, 3000])
def test_long_windows(width):
    """With stretches of nulls that are longer than pages, and than windows."""
    rng = np.random.default_rng(width)
    n = 8000
    x = rng.normal(size=n) ** 3
    x[(rng.random(n) < 0.3) | ((np.arange(n) // 900) % 3 == 1)] = np.nan
    x = pd.array(x, "Float64")
    rows = pd.DataFrame({"t": np.cumsum(rng.integers(0, 3, n)), "x": x, "i": rng.permutation(n)})
    rows.loc[4000:, "t"] += 10_000
    compiled, python = monoids()
    spec = mta.rolling(f"{width}i", on="t").agg(
        c=compiled("x", "i"), p=python("x", "i"), q=agg.kll_sketch("x", k=8),
        top=agg.approx_top_k("i", 2, max_items=6), h=agg.hll_sketch("x", lg_k=4),
    )  # fmt: skip
    memory, op = spec.stream(), small(spec, MemoryStore(), 1000)
    for start in range(0, n, 777):
        part = rows.iloc[start : start + 777]
        got, want = op.push(part), memory.push(part)
        for name in want:
            assert list(map(repr, got[name])) == list(map(repr, want[name]))
        assert got["c"].equals(got["p"])


def test_a_look_ahead_leaves_no_trace():
    """`peek` goes on with the partials at hand, and back."""
    rng = np.random.default_rng(5)
    compiled, python = monoids()
    spec = mta.rolling("90i", on="t").agg(
        c=compiled("x", "i"), p=python("x", "i"), q=agg.kll_sketch("x", k=8),
        f=agg.frequent_items_sketch("i", max_items=6), top=agg.approx_top_k("i", 2, max_items=6),
    )  # fmt: skip
    memory, op = spec.stream(), small(spec, MemoryStore())
    for start in range(0, 900, 7):
        t = np.minimum(np.arange(start, start + 7), start + 3)  # the last ones still wait
        rows = pd.DataFrame({"t": t, "x": rng.normal(size=7), "i": rng.integers(0, 9, 7)})
        for call_it in (lambda o, rows=rows: o.push(rows), lambda o: o.peek(), lambda o: o.peek()):
            got, want = call_it(op), call_it(memory)
            for name in want:
                assert list(map(repr, got[name])) == list(map(repr, want[name]))


# ---- failures --------------------------------------------------------------------------------


TIMES = st.sampled_from([1, 1, 12])


@given(data(max_size=20, keys=("int64", "int64")), TIMES, st.sets(st.integers(1, 60)), st.data())
def test_a_store_that_fails(sample, times, failing, draws):
    spec, columns = with_aggs(draws, times=times), in_time(repeated(sample, times))
    loses_nothing(spec, columns, failing, draws)


def loses_nothing(spec, columns, failing, draws):
    """Though calls of these numbers fail, the answers are those of the stream in memory."""
    memory, op = spec.stream(), retried(small, spec, FailingStore(before=failing), plain=True)
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build("polars", cut(columns, start, stop))
        assert retried(op.push, rows) == call("dict", memory.push, rows)
        if draws.draw(st.booleans()):
            retried(op.flush, plain=True)
    assert retried(op.finish) == call("dict", memory.finish)


@settings(max_examples=40)
@given(data(max_size=20, keys=("int64", "float64")), TIMES, st.data())
def test_a_crash_at_any_time(sample, times, draws):
    """The stream goes on from its last flush: partials are made again, of the rows."""
    assume(sample.rows)
    spec, columns = with_aggs(draws, times=times), in_time(repeated(sample, times))
    goes_on(spec, columns, "pandas-nullable", draws)


def goes_on(spec, columns, kind, draws):
    """Whatever was pushed after a flush and got lost."""
    store = MemoryStore()
    memory, op = spec.stream(), small(spec, store)
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build(kind, cut(columns, start, stop))
        assert call(kind, op.push, rows) == call(kind, memory.push, rows)
        if draws.draw(st.booleans()):
            op.flush()
            saved = dict(store._values)
            call(kind, op.push, build(kind, cut(columns, stop, len(columns["t"][1]))))
            store._values = {**store._values, **saved}
            op = small(spec, store)
    assert call(kind, op.finish) == call(kind, memory.finish)


def refuses(x):
    if x == 77.0:
        raise ValueError("77 is not taken")
    return x


def refuses_sum(a, b):
    if a + b > 1000.0:
        raise ValueError("so large a sum is not taken")
    return a + b


def refuses_answer(part):
    if part > 500.0:
        raise ValueError("so large an answer is not taken")
    return part


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_a_function_raises_is_told_and_the_push_undone(wrapped):
    functions = [refuses, refuses_sum, refuses_answer]
    if wrapped:  # so that numba refuses it
        functions = [
            lambda x: {"x": refuses(x)},
            lambda a, b: {"x": refuses_sum(a["x"], b["x"])},
            lambda part: refuses_answer(part["x"]),
        ]
    monoid = agg.monoid(*functions, zero={"x": 0.0} if wrapped else 0.0)
    spec = mta.rolling(5).agg(s=monoid("x"))
    bad = {"77": 77.0, "so large a sum": 2000.0, "so large an answer": 700.0}
    memory, op = spec.stream(), small(spec)
    rng = np.random.default_rng(7)
    for message, value in bad.items():
        for _ in range(3):
            rows = {"x": rng.random(100)}
            assert op.push(rows)["s"].tolist() == memory.push(rows)["s"].tolist()
            with pytest.raises(ValueError, match=message) as told:
                op.push({"x": np.array([1.0, value, 1.0])})
            assert any(
                "raised by" in note for note in getattr(told.value, "__notes__", ["raised by"])
            )


# ---- what it costs ---------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1])
def test_a_row_is_written_once_and_read_twice(which):
    rng = np.random.default_rng(1)
    monoid = monoids()[which]
    rows = 1 << 14 if which else 1 << 17
    with mta.rolling(rows).agg(v=monoid("x", "i")).stream(memory="16KB", block=2048) as op:
        held = []
        for _ in range(64):
            n = rows // 16
            op.push({"x": rng.random(n), "i": rng.integers(1, 100, n)})
            held.append(op.stats().memory)
        stats = op.stats()
    assert (
        max(held) < 100_000 + 3.5 * 24 * rows / 128
    )  # two halves of one partial a page, three numbers
    # Formula 3.1 says two requests a block; the pool has some of them.
    assert stats.requests < 1.5 * stats.expected


def test_the_memory_of_sketches_does_not_grow_with_the_window():
    rng = np.random.default_rng(1)
    spec = mta.rolling(1 << 15, every=1000).agg(q=agg.approx_quantile("x", 0.5))
    with spec.stream(memory="16KB", block=2048) as op:
        for _ in range(40):
            op.push({"x": rng.random(1 << 12)})
            assert op.stats().memory < 100_000  # 9 bytes x 2^15 rows are 300 KB
        assert op.stats().requests < 3 * op.stats().expected


def test_damaged_marks_are_refused():
    compiled, _ = monoids()
    spec = mta.rolling(9).agg(v=compiled("x", "i"), q=agg.approx_quantile("x", 0.5))
    op = small(spec, MemoryStore())
    op.push({"x": np.arange(30.0), "i": np.arange(30)})
    (track,) = op._tracks()
    for kernel in track._kernels:
        saved, pages = kernel.to_parts()
        kernel.fill(saved, pages)
        for wrong in (
            b"",
            saved[:-1],
            saved + b"x",
            saved[8:16] + saved[:8] + saved[16:],
            b"\xff" * len(saved),
        ):
            with pytest.raises(ValueError, match="kernel's state"):
                kernel.fill(wrong, pages)
        with pytest.raises(ValueError, match="kernel's state"):
            kernel.fill(saved, b"x")
