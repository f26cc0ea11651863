"""`FileStore` when it is cut short, damaged, crowded, or its disk fails."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.errors import DamageError, SpecError, StoreError
from mta.stores import FileStore, _segments
from store_kinds import SMALL, contents

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 30])
BATCHES = st.dictionaries(KEYS, st.none() | st.binary(max_size=60), min_size=1, max_size=3)
HISTORIES = st.lists(st.tuples(BATCHES, st.booleans()), min_size=1, max_size=25)


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk():
    """Nobody looks at the disk here but through the system's memory; forcing it only takes time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda fd: None)
        patched.setattr(_segments, "sync_data", lambda fd: None)
        yield


class Written:
    """A store that took a history; what it held after each batch, and after which it flushed."""

    def __init__(self, history, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(folder, segment=SMALL)
        self.states = [{}]
        self.flushed = 0
        for batch, flush in history:
            self.write(batch)
            if flush:
                self.flush()

    def write(self, batch) -> None:
        self.store.write(batch)
        after = {**self.states[-1], **batch}
        self.states.append({k: v for k, v in after.items() if v is not None})

    def flush(self) -> None:
        self.store.flush()
        self.flushed = len(self.states) - 1


@given(HISTORIES, st.data())
def test_what_is_torn_behind_the_last_flush_is_dropped(history, data):
    """Any part of the last file may be missing, or be followed by rubbish, after a crash."""
    with tempfile.TemporaryDirectory() as folder:
        written = Written(history, Path(folder) / "store")
        written.flush()
        for batch in data.draw(st.lists(BATCHES, max_size=4)):
            written.write(batch)
        crashed = Path(folder) / "crashed"
        shutil.copytree(written.folder, crashed)
        written.store.close()
        last = sorted(crashed.glob("*.blocks"))[-1]
        size = last.stat().st_size
        # A segment that was begun since, or removed, has made more durable than the flush did.
        mark = _segments.Mark(crashed / "durable")
        durable = mark.offset if mark.segment == int(last.stem, 16) else 0
        kept = data.draw(st.integers(max(durable, _segments.FIRST), size))
        rubbish = data.draw(st.binary(max_size=size - kept))
        last.write_bytes(last.read_bytes()[:kept] + rubbish)
        for _ in range(2):  # the second time nothing is left to drop
            with FileStore(crashed, segment=SMALL) as store:
                found = contents(store)
                assert found in written.states[written.flushed :]
                if kept == size:
                    assert found == written.states[-1]


@given(HISTORIES, st.data())
def test_damage_before_the_last_flush_is_refused(history, data):
    with tempfile.TemporaryDirectory() as folder:
        written = Written(history, Path(folder))
        written.store.close()
        files = [*sorted(Path(folder).glob("*.blocks")), Path(folder) / "durable"]
        path = data.draw(st.sampled_from(files))
        size = path.stat().st_size
        how = data.draw(st.sampled_from(["flip", "cut", "remove"]))
        if how == "flip":
            changed = bytearray(path.read_bytes())
            changed[data.draw(st.integers(0, size - 1))] ^= data.draw(st.integers(1, 255))
            path.write_bytes(changed)
        elif how == "cut":
            os.truncate(path, data.draw(st.integers(0, size - 1)))
        else:
            path.unlink()
        try:
            with FileStore(folder, segment=SMALL) as store:
                found = contents(store)
        except DamageError:
            pass
        else:  # a value that nobody asks for, or a slot of the mark that is not needed
            assert how == "flip" or (path.name, how) == ("durable", "cut")
            assert found == written.states[-1]


def test_the_message_says_where(tmp_path):
    with FileStore(tmp_path) as store:
        store.put_many({b"a": bytes(1000), b"b": bytes(1000)})
    (path,) = tmp_path.glob("*.blocks")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with FileStore(tmp_path) as store:
        assert store.get(b"a") == bytes(1000)
        with pytest.raises(
            DamageError, match=r"value of b'b' is damaged .*01\.blocks from byte 1,"
        ):
            store.get(b"b")
        store.put(b"b", b"new")
        assert store.get(b"b") == b"new"
    os.truncate(path, 100)
    with pytest.raises(DamageError, match=r"01\.blocks is damaged: .*bytes were flushed"):
        FileStore(tmp_path)


def test_another_version_is_refused(tmp_path, monkeypatch):
    FileStore(tmp_path).close()
    monkeypatch.setattr(_segments, "_VERSION", 2)
    with pytest.raises(DamageError, match=r"it is a b'MTAS', version 1"):
        FileStore(tmp_path)


def test_what_a_window_leaves_behind_is_removed(tmp_path):
    """Blocks come and go in order; none is ever written again."""
    with FileStore(tmp_path, segment=10_000) as store:
        for number in range(1000):
            store.write({b"%d" % number: bytes(1000), b"%d" % (number - 20): None})
        segments = list(tmp_path.glob("*.blocks"))
        assert len(segments) <= 20 * 1000 / 10_000 + 3
        assert len(contents(store)) == 20
    with FileStore(tmp_path) as store:
        assert set(store.keys()) == {b"%d" % number for number in range(980, 1000)}


def test_long_lived_blocks_don_t_keep_the_dead(tmp_path):
    with FileStore(tmp_path, segment=10_000) as store:
        store.put_many({b"old %d" % number: bytes(100) for number in range(10)})
        for number in range(2000):
            store.put(b"hot", b"%d" % number * 200)
            store.delete(b"old 3")
        size = sum(path.stat().st_size for path in tmp_path.glob("*.blocks"))
        assert size < 2 * 2000 + 6 * 10_000
        expected = contents(store)
        assert len(expected) == 10
    with FileStore(tmp_path) as store:
        assert contents(store) == expected


def test_readers_go_on_while_files_are_removed(tmp_path):
    """A place that was looked up before its file was removed can still be read."""
    with FileStore(tmp_path, segment=SMALL) as store:
        store.put(b"a", b"1" * SMALL)
        place = store._index[b"a"]
        store.delete(b"a")
        store.put(b"b", b"2" * SMALL)
        store.flush()
        assert not place.segment.path.exists()
        assert store._value(b"a", place) == b"1" * SMALL


def test_a_death_while_tidying(tmp_path):
    """The mark says that a segment is not needed, but it is still there."""
    with FileStore(tmp_path, segment=SMALL) as store:
        store.put(b"a", b"1" * SMALL)
        shutil.copy(tmp_path / f"{1:016x}.blocks", tmp_path / "kept")
        store.write({b"a": None, b"b": b"2" * SMALL})
        store.put(b"c", b"3")
        store.flush()
    (tmp_path / "kept").rename(tmp_path / f"{1:016x}.blocks")
    (tmp_path / f"{9:016x}.blocks.tmp").write_bytes(b"unfinished")
    with FileStore(tmp_path) as store:
        assert list(store.keys()) == [b"b", b"c"]
    assert sorted(path.name[-8:] for path in tmp_path.iterdir()) == [
        "2.blocks", "3.blocks", "durable", "lock",
    ]  # fmt: skip


def failing(error: int, after: int):
    """Like `os.pwritev`, but writes `after` bytes and fails."""

    def pwritev(fd: int, parts: list[bytes], place: int) -> int:
        os.pwrite(fd, b"".join(parts)[:after], place)
        raise OSError(error, os.strerror(error))

    return pwritev


@pytest.mark.parametrize("after", [0, 10, 200, 5000])
def test_a_full_disk(after, tmp_path, monkeypatch):
    with FileStore(tmp_path, segment=3000) as store:
        store.put(b"a", b"1" * 2000)
        store.put(b"b", b"2" * 2000)
        before = contents(store)
        for batch in ({b"c": b"3" * 4000}, {b"a": None, b"c": b"4" * 4000}):
            with monkeypatch.context() as patched:
                patched.setattr(_segments.os, "pwritev", failing(errno.ENOSPC, after))
                with pytest.raises(StoreError, match=r"write b'[ac]'.*No space left"):
                    store.write(batch)
            assert contents(store) == before
            assert store._newest.path.stat().st_size == store._newest.size
        store.put(b"d", b"5" * 3000)
        store.put(b"e", b"6")  # in the next segment
        store.flush()
        expected = contents(store)
    with FileStore(tmp_path) as store:
        assert contents(store) == expected == {**before, b"d": b"5" * 3000, b"e": b"6"}


def test_what_was_dropped_never_comes_back(tmp_path):
    """A whole batch lies behind a torn one; the next batch takes the very place of that one."""
    with FileStore(tmp_path) as store:
        store.put(b"0", b"0")
    shutil.copytree(tmp_path, tmp_path / "crashed")
    (path,) = tmp_path.glob("*.blocks")
    with FileStore(tmp_path) as store:
        store.put(b"1", b"torn")
        store.put(b"2", b"behind")
    torn = path.read_bytes().replace(b"torn", b"TORN")
    (tmp_path / "crashed" / path.name).write_bytes(torn)
    for batch in ({}, {b"3": b"here"}, {}):
        with FileStore(tmp_path / "crashed") as store:
            store.write(batch)
            found = contents(store)
    assert found == {b"0": b"0", b"3": b"here"}


def test_short_writes_go_on(tmp_path, monkeypatch):
    whole = os.pwritev
    monkeypatch.setattr(
        _segments.os, "pwritev", lambda fd, parts, place: whole(fd, [parts[0][:7]], place)
    )
    values = {b"%d" % i: bytes([i % 256]) * 50 for i in range(1200)}  # more than one call takes
    with FileStore(tmp_path) as store:
        store.write(values)
    with FileStore(tmp_path) as store:
        assert contents(store) == values


def test_a_disk_that_failed_to_sync_is_not_trusted(tmp_path, monkeypatch):
    """The system says once that it lost something; a second sync would promise too much."""

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = FileStore(tmp_path)
    store.put(b"a", b"1")
    store.flush()
    store.put(b"b", b"2")
    with monkeypatch.context() as patched:
        patched.setattr(_segments, "sync_data", broken)
        with pytest.raises(StoreError, match=r"flush: .*Input/output error"):
            store.flush()
    for call in (store.flush, lambda: store.put(b"c", b"3"), store.close):
        with pytest.raises(StoreError, match=r"the disk failed .* open the store again"):
            call()
    with FileStore(tmp_path) as store:
        assert contents(store) == {b"a": b"1", b"b": b"2"}


def test_every_file_is_forced_to_the_disk_in_order(tmp_path, monkeypatch):
    """Data before its mark; a new file under its name before the first byte goes into it."""
    calls = []

    def noted(name):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a: (calls.append(name), real(*a))[1])

    for name in ("pwritev", "pwrite", "fsync"):
        noted(name)
    monkeypatch.setattr(_segments, "sync_data", lambda fd: calls.append("sync"))
    with FileStore(tmp_path, segment=100) as store:
        assert calls == ["fsync"] * 4  # the mark and its folder, the segment and its folder
        calls.clear()
        store.put(b"a", bytes(200))
        assert calls == ["pwritev"]
        store.flush()
        assert calls == ["pwritev", "sync", "pwrite"]
        calls.clear()
        store.put(b"b", b"")  # begins a segment
        assert calls == ["sync", "fsync", "fsync", "pwritev"]
        calls.clear()
        store.delete(b"a")
        store.flush()  # removes the first: what makes it useless, and that it is gone, come before
        order = ["pwritev", "sync", "pwrite", "sync", "pwrite", "sync", "fsync"]
        assert calls == order


def test_a_segment_has_room():
    with pytest.raises(SpecError, match="at least one byte"):
        FileStore("unused", segment=0)


def test_numbers_of_segments_go_on(tmp_path):
    with FileStore(tmp_path, segment=1) as store:
        for number in range(5):
            store.put(b"%d" % number, b"x")
        names = sorted(int(path.stem, 16) for path in tmp_path.glob("*.blocks"))
        assert all(b == a + 1 for a, b in pairwise(names))
    (tmp_path / f"{3:016x}.blocks").unlink()
    with pytest.raises(DamageError, match=r"3\.blocks is damaged: it is missing"):
        FileStore(tmp_path)
