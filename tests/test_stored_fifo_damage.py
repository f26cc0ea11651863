"""Windows on a store that is not what they left: refused, and never a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

from fifo_cases import WORDS
from mta import agg, fifo
from mta.errors import DamageError, SnapshotError, SpecError, StoreError
from mta.stores import FileStore, MemoryStore, open_store

ROWS = np.arange(1000.0)
HEADER = b"w/header"


def kept(store, aggregate=None, name="w", **options):
    aggregate = agg.sum("x") if aggregate is None else aggregate
    return fifo.StoredAMTA(aggregate, store, name, **{"block": 64, **options})


@pytest.fixture
def store():
    store = MemoryStore()
    with kept(store) as w:
        w.slide(ROWS, 700)
    return store


def blocks(store, name=b"w"):
    return [key for key in store.keys(name + b"/") if not key.endswith(b"header")]


def use(store):
    """All that reads blocks; the answers are those of a window in memory, if they come."""
    w, memory = kept(store), fifo.AMTA(agg.sum("x"))
    memory.slide(ROWS, 700)
    np.testing.assert_array_equal(w.slide(ROWS, 700), memory.slide(ROWS, 700))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 128}, r"made with values a block 8, not 16"),
        ({"aggregate": agg.max("x")}, r"made with agg agg.sum\('x'\), not agg.max\('x'\)"),
        ({"aggregate": agg.sum("y")}, "agg.sum"),
        ({"aggregate": WORDS("x"), "block": 1024}, "made with agg"),
        ({"type": "int"}, "made with type float, not int"),
    ],
)
def test_another_window_is_refused(options, message, store):
    before = dict(store._values)
    with pytest.raises(SnapshotError, match=f"'w'.*{message}"):
        kept(store, **options)
    with pytest.raises(SnapshotError, match="made with algorithm AMTA, not LogMTA"):
        fifo.StoredLogMTA(agg.sum("x"), store, "w", block=64)
    assert store._values == before


def test_every_byte_of_the_header_counts(store):
    header = store.get(HEADER)
    for at in range(0, len(header), 5):
        store.put(HEADER, header[:at] + bytes([header[at] ^ 4]) + header[at + 1 :])
        with pytest.raises(SnapshotError, match="'w'"):
            kept(store)
    for at in (0, 3, 51, 60, len(header) - 1):
        store.put(HEADER, header[:at])
        with pytest.raises(SnapshotError, match="'w'"):
            kept(store)
    store.put(HEADER, header)
    use(store)


def test_headers_of_other_windows_are_refused(store):
    with kept(store, name="other", aggregate=agg.min("x")) as w:
        w.insert_many(ROWS)
    store.put(HEADER, store.get(b"other/header"))
    with pytest.raises(SnapshotError, match="made with name other, not w"):
        kept(store)


def test_missing_blocks_are_missed_when_it_is_opened(store):
    for key in blocks(store):
        block = store.get(key)
        store.delete(key)
        with pytest.raises(DamageError, match="missing") as error:
            kept(store)
        assert repr(key) in str(error.value)
        store.put(key, block)
    use(store)


def test_blocks_that_go_missing_later(store):
    w = kept(store)
    for key in blocks(store):
        store.delete(key)
    for call in (w.query, lambda: w.evict_many(300), lambda: w.slide(ROWS, 700)):
        with pytest.raises(DamageError, match="missing"):
            call()
    assert (len(w), w.inserted) == (700, 1000)


def wrongs(store, key):
    """What may be found where a block has been."""
    with kept(store, name="other") as w:
        w.slide(ROWS, 700)
    block = store.get(key)
    yield block[:-1]
    yield block + b"\0"
    yield b""
    yield block[8:]
    for other in [*blocks(store), *blocks(store, b"other")]:
        if other != key:
            yield store.get(other)


def test_other_blocks_are_refused(store):
    found = 0
    for key in blocks(store)[:: len(blocks(store)) // 4]:
        block = store.get(key)
        for wrong in wrongs(store, key):
            store.put(key, wrong)
            with pytest.raises(DamageError, match="is damaged: it") as error:
                use(store)
            assert repr(key) in str(error.value)
            found += 1
        store.put(key, block)
        use(MemoryStoreOf(store))
    assert found > 100


def whole(block):
    """A block of first words with the second ones as well, as all blocks of sums once were."""
    words = np.frombuffer(block[:64])
    assert block[64] == 2  # they are zeros
    return np.column_stack([words, 0 * words]).tobytes() + block[65:]


def test_blocks_of_whole_nodes_are_read_as_well(store):
    lowest = [key for key in blocks(store) if b"/tier 0/" in key]
    assert len(lowest) > 50
    for key in lowest:
        store.put(key, whole(store.get(key)))
    use(store)


def test_second_words_are_known_ones(store):
    for key in blocks(store)[::20]:
        block = store.get(key)
        for wrong in (0, 3, 255):
            store.put(key, block[:64] + bytes([wrong]) + block[65:])
            with pytest.raises(DamageError, match="damaged: it has 65 bytes, not 128") as error:
                use(store)
            assert repr(key) in str(error.value)
        store.put(key, block)
    use(store)


class MemoryStoreOf(MemoryStore):
    """A copy."""

    def __init__(self, other):
        super().__init__()
        self._values.update(other._values)


def test_flipped_bits_in_files_are_refused(tmp_path):
    def store():
        return FileStore(tmp_path, segment=3000)

    with store() as files, kept(files) as w:
        w.slide(ROWS, 700)
    refused = 0
    for path in sorted(tmp_path.glob("*.blocks")):
        data = path.read_bytes()
        for at in range(100, len(data), 701):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            try:
                with store() as files:
                    memory = MemoryStore()
                    memory.put_many({key: files.get(key) for key in list(files.keys())})
                    use(memory)
            except DamageError:
                refused += 1
        path.write_bytes(data)
    assert refused > 5


def test_the_window_opens_only_what_is_there(tmp_path):
    url = f"file://{tmp_path}/folder?segment=4000"
    with fifo.StoredAMTA(agg.sum("x"), url, block=128) as w:
        w.insert_many(ROWS)
    for _ in range(2):  # the store is let go of where the window can't be opened
        with pytest.raises(SnapshotError):
            fifo.StoredAMTA(agg.max("x"), url, block=128)
    with fifo.StoredAMTA(agg.sum("x"), url, block=128) as w:
        assert w.query() == ROWS.sum()


def test_what_makes_no_window():
    for wrong in ("", "a/b", "x" * 401):
        with pytest.raises(SpecError, match="name"):
            kept(MemoryStore(), name=wrong)
    for wrong in (0, 15, 1 << 29):
        with pytest.raises(SpecError, match="block"):
            kept(MemoryStore(), block=wrong)
    with pytest.raises(SpecError, match="type"):
        kept(MemoryStore(), type="text")
    with pytest.raises(SpecError, match="a store or its URL"):
        kept(None)


def test_closed_windows_say_so():
    w = kept(MemoryStore())
    w.insert(1.0)
    w.close()
    w.close()
    for call in (
        lambda: w.insert(1.0),
        lambda: w.insert_many(ROWS),
        lambda: w.slide(ROWS, 3),
        w.evict,
        lambda: w.evict_while(lambda total, old: True),
        w.flush,
    ):
        with pytest.raises(StoreError, match="closed"):
            call()
    for call in (w.to_bytes, lambda: type(w).from_bytes(b"", agg.sum("x"))):
        with pytest.raises(SnapshotError):
            call()


def test_windows_share_a_store_and_are_no_others_business(store):
    others = {b"w/": b"1", b"w/mine": b"2", b"w2/header": b"3", b"w/0/tier 0/0": b"4"}
    store.put_many(others)
    with kept(store, name="w2 ") as w:
        w.insert_many(ROWS)
    with kept(store) as w:
        w.evict_many(len(w))
        w.flush()
    assert all(store.get(key) == value for key, value in others.items())
    assert not [key for key in blocks(store) if key not in others]
    assert kept(store, name="w2 ").query() == ROWS.sum()


# ---- URLs ------------------------------------------------------------------------------------


def test_stores_by_url(tmp_path):
    for url, kind in [
        ("memory:", "MemoryStore('memory')"),
        (f"file://{tmp_path}/a?sync=never&segment=1000", f"FileStore('{tmp_path}/a')"),
        (f"file://localhost{tmp_path}/a%20b", f"FileStore('{tmp_path}/a b')"),
        (f"lmdb:{tmp_path}/c?map_size=1000000", f"LmdbStore('{tmp_path}/c')"),
        (f"rocksdb:///{tmp_path}/d?memory=2000000", f"RocksStore('/{tmp_path}/d')"),
    ]:
        with open_store(url, background=False) as store:
            assert repr(store) == kind
            store.put(b"a", b"b")
        with open_store(url) as store:
            assert repr(store) == f"BackgroundStore({kind.partition('(')[2]}"
            assert store.get(b"a") == (None if url == "memory:" else b"b")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "names no store"),
        ("/folder", "names no store"),
        ("file:", "names no store"),
        ("file://host/folder", "names no store"),
        ("memory:/folder", "names no store"),
        ("sqlite:///folder", "names no store"),
        ("memory:?sync=never", "an option that this store has not"),
        ("file:///nowhere?map_size=3", "an option that this store has not"),
        ("file:///nowhere?segment=many", "segment is a number of bytes, not 'many'"),
        ("file:///nowhere?segment=-1", "segment is a number of bytes"),
        ("lmdb:///nowhere?sync=often", "sync: 'often'"),
        ("rocksdb:///nowhere?memory=", "memory is a number of bytes, not ''"),
        (3, "a store or its URL"),
    ],
)
def test_urls_that_name_no_store(url, message):
    with pytest.raises(SpecError, match=message):
        open_store(url)


def test_stores_that_can_not_be_opened(tmp_path):
    (tmp_path / "file").write_text("")
    for scheme in ("file", "lmdb", "rocksdb"):
        with pytest.raises(StoreError, match="open"):
            open_store(f"{scheme}://{tmp_path}/file")
    with pytest.raises(StoreError, match="open"):
        open_store("redis://127.0.0.1:1/0?name=w")
