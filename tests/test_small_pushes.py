"""What a push is made of: arrays handed over as memory, bounds and books in compiled calls."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import mta
from mta import agg
from mta._bounds import row_bounds
from mta._keys import has_least
from mta._pool import FIELDS, advanced, edges_of, gather, offsets_of, ranges, scatter
from mta._vector import Vector
from mta.engine import row_edges, row_windows
from mta.frames import open_frame

LEAST, GREATEST = -(2**63), 2**63 - 1
SPECS = {
    "rows": mta.rolling(100).agg(v=agg.sum("x")),
    "time": mta.rolling("1000i", on="ts", ties="arrival").agg(v=agg.weighted_mean("x", "w")),
    "keys": mta.rolling("1000i", on="ts", by="k").agg(v=agg.std("x"), n=agg.count("w")),
    "waits": mta.rolling("1000i", on="ts").agg(v=agg.max("x")).watermark("30i"),
}


def a_row(i):
    one = np.array([i])
    return {"ts": one * 10, "x": one * 0.5, "w": one * 1.0, "k": one % 3}


@pytest.mark.parametrize("memory", [None, "128KB"])
@pytest.mark.parametrize("name", SPECS)
def test_a_push_leaves_nothing_for_the_garbage_collector(name, memory):
    op = SPECS[name].stream() if memory is None else SPECS[name].stream(memory=memory)
    for i in range(300):
        op.push(a_row(i))
    while gc.collect():  # what tests before have left, numba's above all, goes by and by
        pass
    before = gc.get_stats()
    gc.disable()
    try:
        for i in range(300, 600):
            op.push(a_row(i))
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert gc.get_stats()[0]["collections"] == before[0]["collections"]


@pytest.mark.parametrize(
    "items",
    [
        np.array([3, -1, 2**62]), np.array([1, 2], np.int32), np.arange(9)[::3], np.arange(9)[8::9],
        np.array([True, False]), np.zeros(0, np.int64), [5, 6], np.array([7, 8], np.uint64),
    ],
)  # fmt: skip
def test_a_vector_takes_integers_of_any_type(items):
    vector = Vector()
    vector.extend(np.array([1]))
    vector.extend(items)
    assert vector.view().tolist() == [1, *np.asarray(items).tolist()]


def test_a_vector_takes_other_items_of_8_bytes_as_they_are():
    vector, masks = Vector(), Vector(False)
    vector.extend(np.array([0.5, -0.0, np.nan])[::2])
    assert vector.view().view(np.float64).tolist()[0] == 0.5
    masks.extend(np.array([True, False]))
    masks.extend(np.array([1, 0]))
    assert masks.view().tolist() == [1, 0, 1, 0]
    with pytest.raises(ValueError, match="one dimension"):
        vector.extend(np.zeros((2, 2), np.int64))
    assert (len(vector), len(masks)) == (2, 4)


@pytest.mark.parametrize(
    "column",
    [
        np.arange(10)[::2], np.arange(5.0, dtype=">f8"), np.arange(5, dtype="<i2"),
        np.arange(5).astype(">M8[s]"), np.arange(5).astype("M8[h]"), np.arange(5).astype("M8[25s]"),
        np.arange(5).astype("m8[us]"), np.array([1, "NaT", 3, "NaT", 5], "M8[ns]"),
        np.ma.MaskedArray(np.arange(5), [0, 1, 0, 0, 1]), np.ma.MaskedArray(np.arange(5), [0] * 5),
    ],
)  # fmt: skip
def test_columns_of_any_layout_are_read_as_their_plain_copies(column):
    column.flags.writeable = False
    read = open_frame({"x": column}).column("x")
    assert read.values.flags.c_contiguous
    assert read.values.dtype.isnative
    missing = np.ma.getmaskarray(column) if np.ma.isMaskedArray(column) else np.zeros(5, bool)
    if column.dtype.kind in "mM":
        missing = missing | np.isnat(column)
        plain = column.astype(column.dtype.newbyteorder("="))
        unit = {"h": "s"}.get(np.datetime_data(plain.dtype)[0], np.datetime_data(plain.dtype)[0])
        plain = plain.astype(f"{column.dtype.kind}8[{unit}]").view(np.int64)
    else:
        plain = np.asarray(column)
    assert read.values.tolist() == np.where(missing, 0, plain).tolist()
    assert (read.valid is None) == (not missing.any())
    assert read.valid is None or (read.valid == ~missing).all()


@pytest.mark.parametrize("seed", range(30))
def test_windows_over_rows_are_those_of_arrays(seed):
    rng = np.random.default_rng(seed)
    spec = mta.rolling(int(rng.integers(1, 9)), lag=int(rng.integers(-5, 6))).agg(n=agg.count())
    end, start = int(rng.integers(0, 20)), int(rng.integers(0, 20))
    stop = int(rng.integers(0, 20))
    got = row_bounds(start, stop, *row_edges(spec), end)
    want = row_windows(spec, np.arange(start, max(stop, start)), end)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


def test_the_least_number_is_found():
    assert not has_least(np.zeros(0, np.int64))
    assert not has_least(np.array([0, LEAST + 1, GREATEST]))
    assert has_least(np.array([0, 5, LEAST]))


@pytest.mark.parametrize("seed", range(20))
def test_the_books_of_a_pool(seed):
    rng = np.random.default_rng(seed)
    fields = [Vector() for _ in FIELDS]
    for vector in fields:
        vector.extend(rng.integers(-9, 9, 12))
        vector.drop_to(2)
    keys = rng.permutation(10)[: rng.integers(0, 10)]
    table = gather(fields, keys)
    assert table.tolist() == [vector.view()[keys].tolist() for vector in fields]
    scatter(fields, keys, table + 1)
    assert gather(fields, keys).tolist() == (table + 1).tolist()
    for wrong in (-1, 10):
        with pytest.raises(IndexError, match=f"key {wrong} of 10"):
            gather(fields, np.array([0, wrong]))
    sizes, starts = rng.integers(0, 4, 7), rng.integers(-9, 9, 7)
    assert offsets_of(sizes).tolist() == [0, *np.cumsum(sizes).tolist()]
    want = [int(s) + i for s, n in zip(starts, sizes, strict=True) for i in range(n)]
    assert ranges(starts, sizes).tolist() == want


@pytest.mark.parametrize("lag", [0, 3, -3, GREATEST, LEAST + 1])
def test_edges_of_keys_do_not_overflow(lag):
    table = np.zeros((len(FIELDS), 3), np.int64)
    at = {name: row for row, name in enumerate(FIELDS)}
    table[at["newest"]] = [7, LEAST, GREATEST]
    table[at["begin"]], table[at["kept"]] = [0, 1, 2], 1
    table[at["received"]], table[at["answered"]] = 4, [4, 3, 4]
    times = np.array([7, 100, GREATEST])
    for closed in (False, True):
        edges = edges_of(table, times, lag, closed).tolist()
        least, most = LEAST + max(lag, 0), GREATEST + min(lag, 0) - 1
        joined = [max(least, min(int(t), most)) - lag + closed for t in times]
        # Of the second key the row that was answered last is gone.
        assert edges == [max(7, joined[0]), LEAST, max(GREATEST, joined[2])]


def test_a_table_goes_on_as_a_track_does():
    table = np.zeros((len(FIELDS), 1), np.int64)
    none = np.zeros(0, np.int64)
    one = np.array([1])
    for i in range(40):
        came, counts = one, one
        kept, received = int(table[1, 0]), int(table[2, 0])
        shift = np.array([kept - received])
        lo, hi = np.array([max(i - 4, 0)]) + shift, np.array([i + 1]) + shift
        offsets = np.array([0, kept + 1])
        table = advanced(table, came, offsets, offsets_of(one), shift, none, counts, lo, hi)
        told = dict(zip(FIELDS, table[:, 0].tolist(), strict=True))
        assert (told["received"], told["answered"], told["lo"], told["hi"]) == (
            i + 1, i + 1, max(i - 4, 0), i + 1,
        )  # fmt: skip
        assert told["received"] - told["kept"] == max(i - 4 - 16, 0)
