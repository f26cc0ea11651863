"""Windows by number on a store that fails, and after a crash: no row counts twice, none is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError, StoreError
from mta.one_batch import OneBatch
from mta.stores import FileStore, MemoryStore
from stored_rows import ALL, SUMS, answered, bits, part, rows_of, spec_of

ROWS = rows_of(1_500, 3, groups=5)
SPECS = {"sums": spec_of(SUMS, length=160), "all": spec_of(ALL, length=160)}
WANT = {name: answered(spec.stream(), ROWS, 100) for name, spec in SPECS.items()}
KINDS = st.tuples(st.sampled_from(["sums", "all"]), st.sampled_from(["2LA", "1W", "auto"]))


class Failing(FailingStore):
    """Fails at single reads, too."""

    def _get(self, key):
        return self._failing(lambda: self._values.get(key))


class Recording(MemoryStore):
    """Remembers what was there after every write."""

    def __init__(self, values=None):
        super().__init__()
        self._values = dict(values or {})
        self.past = [dict(self._values)]

    def _write(self, batch):
        super()._write(batch)
        self.past.append(dict(self._values))


def through_failures(op, call, *arguments):
    """What a user does: the rows are in where `received` says so; what is left is tried again."""
    before = op.received
    for _ in range(200):
        try:
            return call(*arguments)
        except StoreError:
            if op.received > before or call == op.finish:
                call, arguments = op.retry, ()
    raise AssertionError("it never works")


def failing_store(failing):
    """Fails at these calls, some of which it has done."""
    return Failing(before=failing, after={n + 1 for n in failing if n % 3 == 0})


def answered_through_failures(op, rows, step, told=bits):
    """As `answered`, of a store that fails; with flushes."""
    got = {}
    for at in range(0, len(rows["ts"]), step):
        got |= told(through_failures(op, op.push, part(rows, at, at + step)))
        if at % 3 == 0:
            through_failures(op, op.flush)
    return got | told(through_failures(op, op.finish))


def answered_over_a_crash(opened, rows, step, every, draws, told=bits):
    """As `answered`, by two streams: one that crashes, and one that goes on from its last flush,
    with what the store held after any of the batches.

    opened : makes a stream on a store; every : so many pushes are flushed
    """
    store = Recording()
    op, given_so_far = opened(store), {0: {}}
    for number, at in enumerate(range(0, len(rows["ts"]), step)):
        got = told(op.push(part(rows, at, at + step)))
        given_so_far[op.received] = given_so_far[at] | got
        if number % every == 0:
            op.flush()
    crash = draws.draw(st.integers(0, len(store.past) - 1))
    again = opened(Recording(store.past[crash]))
    start = again.received
    return given_so_far[start] | answered(again, rows, step + 7, start, told)


@given(
    KINDS, st.sets(st.integers(3, 600), max_size=80), st.sets(st.integers(3, 600), max_size=40),
    st.integers(60, 700), st.integers(2200, 6000),
)  # fmt: skip
@settings(max_examples=20)
def test_a_store_that_fails_costs_no_row_and_no_answer(kind, before, after, step, memory):
    """Before it does anything or after, at any call of it."""
    store = Failing(before=before, after=after)
    op = SPECS[kind[0]].stream(memory=memory, store=store, plan=kind[1])
    assert answered_through_failures(op, ROWS, step) == WANT[kind[0]]


def test_what_a_failure_has_cut_short_is_no_state_to_be_flushed():
    store = Failing(before=set(range(4, 5000)))
    op = SPECS["sums"].stream(memory=2500, store=store, plan="2LA")
    with pytest.raises(StoreError, match="the cable is out"):
        op.push(ROWS)
    assert op.received == 1_500
    with pytest.raises(DataError, match="retry"):
        op.flush()
    with pytest.raises(StoreError, match="the cable is out"):
        op.push(ROWS)
    assert op.received == 1_500
    store.before = set()
    assert bits(op.retry()) | bits(op.finish()) == WANT["sums"]


@given(KINDS, st.integers(40, 500), st.integers(1, 4), st.integers(2200, 6000), st.data())
@settings(max_examples=20)
def test_after_a_crash_it_goes_on_from_the_last_flush(kind, step, every, memory, draws):
    """At any moment: what the store held after any of its batches."""
    spec, store = SPECS[kind[0]], Recording()
    op, given_so_far = spec.stream(memory=memory, store=store, plan=kind[1]), {0: {}}
    moments, flushed = [0], 0
    for number, at in enumerate(range(0, 1_500, step)):
        got = bits(op.push(part(ROWS, at, at + step)))
        moments += [flushed] * (len(store.past) - len(moments))
        given_so_far[op.received] = given_so_far[at] | got
        if number % every == 0:
            op.flush()
            flushed = op.received
            moments += [flushed] * (len(store.past) - len(moments))
    crash = draws.draw(st.integers(0, len(store.past) - 1))
    again = spec.stream(memory=memory, store=Recording(store.past[crash]), plan=kind[1])
    start = again.received
    assert start >= moments[crash]
    assert given_so_far[start] | answered(again, ROWS, step + 7, start) == WANT[kind[0]]


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_a_stream_opened_again_and_again_leaves_nothing_behind(plan, tmp_path: Path):
    got, where = {}, f"file://{tmp_path}"
    for at in range(0, 1_500, 100):
        with SPECS["all"].stream(memory="4KB", store=where, plan=plan, name="calls") as op:
            assert op.received == at
            got |= bits(op.push(part(ROWS, at, at + 100)))
    with FileStore(tmp_path) as store:
        assert len(list(store.keys())) < 60
        op = SPECS["all"].stream(memory="4KB", store=store, plan=plan, name="calls")
        got |= bits(op.finish())
        assert got == WANT["all"]


def test_several_writes_are_one_batch():
    """One that fails is read as if it were written, and goes with the next; one that is cut short
    was never there."""
    below = FailingStore(before={2})
    store = OneBatch(below)
    store.write({b"a": b"1", b"b": b"1"})
    with pytest.raises(StoreError, match="the cable is out"), store.together():
        store.write({b"a": b"2", b"b": None})
    assert (below._values, store.waiting) == ({b"a": b"1", b"b": b"1"}, 1)
    assert (store.get(b"a"), store.get(b"b"), list(store.keys())) == (b"2", None, [b"a"])
    with pytest.raises(DataError), store.together():
        store.write({b"a": 3})
    assert store.get(b"a") == b"2"
    store.put(b"c", b"4")
    assert below._values == {b"a": b"2", b"c": b"4"}
    assert (store.waiting, store.bytes_written, store.bytes_read) == (0, 4, 2)


CHILD = """
import sys
from stored_rows import rows_of, spec_of, part
rows, spec = rows_of(40_000, 4, groups=5), spec_of(length=160)
op = spec.stream(memory="4KB", store="file://" + sys.argv[1], plan=sys.argv[2])
for at in range(op.received, 40_000, 500):
    op.push(part(rows, at, at + 500))
    op.flush()
    print(op.received, flush=True)
"""


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_kill_nine(plan, tmp_path: Path):
    """A process that is killed three times, and what its windows are then."""
    for _ in range(3):
        command = [sys.executable, "-c", CHILD, str(tmp_path), plan]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment())
        told = [child.stdout.readline() for _ in range(8)]
        child.kill()
        child.wait()
        child.stdout.close()
    rows, spec = rows_of(40_000, 4, groups=5), spec_of(length=160)
    with spec.stream(memory="4KB", store=f"file://{tmp_path}", plan=plan) as op:
        assert op.received >= int(told[-1]) >= 24 * 500
        stop = op.received
        got = bits(op.push(part(rows, stop, stop + 4_000)))
    fresh = spec.stream()
    fresh.push(part(rows, 0, stop))
    assert got == bits(fresh.push(part(rows, stop, stop + 4_000)))
    assert got


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


# ------------------------------------------------------------------------- what is refused


def stored():
    store = MemoryStore()
    op = SPECS["all"].stream(memory=4000, store=store, plan="2LA")
    op.push(part(ROWS, 0, 700))
    op.flush()
    return store


def to_the_end(store):
    op = SPECS["all"].stream(memory=4000, store=store)
    answered(op, ROWS, 200, op.received)


def test_what_is_damaged_or_foreign_is_not_read():
    """Each value that the store holds, with a bit of it changed, cut short, or gone."""
    whole = stored()._values
    seen = 0
    for key, value in whole.items():
        for bad in (value[:-1], value[:40] + bytes([value[40] ^ 8]) + value[41:], b""):
            store = Recording({**whole, key: bad})
            with pytest.raises((SnapshotError, StoreError)):
                to_the_end(store)
            seen += 1
    assert seen > 20
    with pytest.raises(SnapshotError, match="another specification"):
        SPECS["sums"].stream(memory=4000, store=Recording(whole))


@pytest.mark.parametrize("make", [
    lambda s: (s.stream(memory="much"), "memory: 'much' is not an amount of memory"),
    lambda s: (s.stream(memory=500, store="memory:"), "memory: 500 bytes have no room for 3 "),
    lambda s: (s.stream(memory="1MB", plan="wid"), "plan: with memory= one of"),
    lambda s: (s.stream(store="memory:"), "store: say by memory="),
    lambda s: (s.stream(b"", memory="1MB"), "state: with memory= it is on the store"),
    lambda s: (s.stream(memory="1MB", name="a/b"), "name: text without / and ~"),
    lambda s: (s.watermark(punctuation="p").stream(memory="1MB"), "memory: .* punctuation"),
    lambda s: (mta.landmark("5i", on="ts").agg(n=agg.median("x")).stream(memory="1MB"), "landmark"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused_by_name(make):
    code = make.__code__.co_consts
    message = next(c for c in reversed(code) if isinstance(c, str))
    with pytest.raises(SpecError, match=message):
        make(SPECS["all"])


def test_calls_that_need_windows_in_memory_are_refused():
    op = SPECS["sums"].stream(memory=4000, store=MemoryStore())
    op.push(part(ROWS, 0, 100))
    for call in (op.peek, lambda: op.merge(b""), lambda: op.advance(5, key=3)):
        with pytest.raises(SpecError, match="memory: "):
            call()
    with pytest.raises(SnapshotError, match=r"to_bytes: .* open it again by its name, 'stream'"):
        op.to_bytes()


def test_an_overflow_ends_it_and_the_last_flush_is_kept():
    spec = mta.hopping("8i", slide="2i", on="ts").watermark("0i").agg(s=agg.sum("i"))
    store = MemoryStore()
    op = spec.stream(memory=2000, store=store, plan="2LA")
    op.push({"ts": np.array([0, 1]), "i": np.array([1, 2])})
    op.flush()
    with pytest.raises(OverflowError, match="does not fit"):
        op.push({"ts": np.array([2, 3, 50]), "i": np.array([2**63 - 1, 5, 0])})
    for call in (op.flush, lambda: op.push({"ts": np.array([60]), "i": np.array([1])})):
        with pytest.raises(DataError, match="open it again"):
            call()
    op.close()
    again = spec.stream(memory=2000, store=store, plan="2LA")
    assert again.received == 2
    answers = again.push({"ts": np.array([60]), "i": np.array([1])})
    assert answers["s"].tolist() == [3, 3, 3, 3]


def test_a_closed_one_says_so_and_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    op = SPECS["sums"].stream(memory=4000)
    op.push(part(ROWS, 0, 700))
    assert list(tmp_path.iterdir())
    op.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="closed"):
        op.push(part(ROWS, 0, 700))
