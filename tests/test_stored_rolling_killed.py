"""kill -9 while trailing windows larger than memory write: they go on from the last flush."""

from __future__ import annotations

from pathlib import Path

import pytest

import cold_keys_child
import stored_keys_child
from store_child import opened
from stored_stream_child import SPECS, STEP, rows, stream
from test_stores_killed import killed_often

CHILD = Path(__file__).parent / "stored_stream_child.py"
MORE = 900  # rows after it was opened again: longer than any window


@pytest.mark.parametrize("kind", ["files", "lmdb"])
def test_killed_while_it_pushes(kind, tmp_path):
    killed_often(kind, tmp_path, 4, check, CHILD)


def check(kind: str, where: str, flushed: int) -> int:
    """All that was flushed is inside, and what follows is as if nothing had happened."""
    with opened(kind, where) as store:
        op = stream(store)
        received = op.received
        assert received >= flushed
        assert received % STEP == 0
        assert_same(op.push(rows(received, received + MORE)), received)
    return received


def assert_same(got, received):
    for spec, answers in zip(SPECS, got, strict=True):
        memory = spec.stream()
        memory.push(rows(0, received))
        want = memory.push(rows(received, received + MORE))
        for name in want:
            assert got_bits(answers[name]) == got_bits(want[name])


@pytest.mark.parametrize("kind", ["files", "lmdb"])
def test_killed_while_keys_leave_the_pool(kind, tmp_path):
    killed_often(kind, tmp_path, 4, check_keys, CHILD.with_name("stored_keys_child.py"))


def check_keys(kind: str, where: str, flushed: int) -> int:
    """The same of many keys: one has a track, the others are in the pool."""
    made = stored_keys_child.rows
    with opened(kind, where) as store:
        op, memory = stored_keys_child.stream(store), SPECS[0].stream()
        received = op.received
        assert received >= flushed
        if received:
            assert list(op.keyed.tracks) == [0]
        memory.push(made(0, received))
        rows = made(received, received + MORE)
        got, want = op.push(rows), memory.push(rows)
        assert {n: got_bits(got[n]) for n in want} == {n: got_bits(want[n]) for n in want}
    return received


@pytest.mark.parametrize("kind", ["files", "lmdb", "rocksdb"])
def test_killed_while_keys_get_cold_and_come_back(kind, tmp_path):
    killed_often(kind, tmp_path, 5, check_cold_keys, CHILD.with_name("cold_keys_child.py"))


def check_cold_keys(kind: str, where: str, flushed: int) -> int:
    made, spec = cold_keys_child.rows, cold_keys_child.SPEC
    with opened(kind, where) as store:
        op, memory = cold_keys_child.stream(store), spec.stream()
        received = op.received
        assert received >= flushed
        memory.push(made(0, received))
        assert op.state() == memory.state()
        for start in range(received, received + MORE, STEP):
            rows = made(start, start + STEP)
            got, want = op.push(rows), memory.push(rows)
            assert {n: got_bits(got[n]) for n in want} == {n: got_bits(want[n]) for n in want}
        if received > 5 * STEP:
            assert op.stats().cold > 50
    return received


def got_bits(values):
    return values.tobytes()
