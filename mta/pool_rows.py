"""The rows of keys of a pool that are kept, and new ones, put together one key after the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mta._keys import splice
from mta._pool import offsets_of
from mta._sketch_kernel import Items
from mta.engine import Ints
from mta.frames import Column
from mta.plan import Feed, Input
from mta.rows import Chunk, KeptRows, Mask


class Runs(NamedTuple):
    """Of some keys: where their rows begin among the old ones, how many; the same of the new; and
    where they begin when all are put together, and the end."""

    begin: Ints
    kept: Ints
    new_begin: Ints
    came: Ints
    offsets: Ints

    def join(self, old: Any, new: Any) -> Any:
        """Old and new items of every key, one key after the other."""
        return splice(old, new, *self[:4])


def runs_of(begin: Ints, kept: Ints, new_begin: Ints, came: Ints) -> Runs:
    """With where they begin when they are put together."""
    return Runs(begin, kept, new_begin, came, offsets_of(kept + came))


class ChunkRows:
    """Rows at hand, as kernels read them; row 0 is the first."""

    first = 0

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk

    def feed(self, feed: Feed) -> Any:
        """A column's 8-byte values or codes."""
        return self.chunk.feeds[feed]

    def items(self, feed: Feed) -> Items | None:
        """What its codes stand for."""
        return self.chunk.items.get(feed)

    def valid(self, source: Input) -> Mask | None:
        """Which rows count."""
        return self.chunk.valids[source]


def joined_chunk(rows: KeptRows, new: Chunk, runs: Runs) -> Chunk:
    """The rows of every key that are kept, and those that are new, one key after the other."""
    kept = rows.end
    feeds = {
        feed: runs.join(vector.view(), new.feeds[feed].view(np.int64))
        for feed, vector in rows.feeds.items()
    }
    valids = {
        s: _joined_mask(rows.valid(s), new.valids[s], kept, new.rows, runs) for s in new.valids
    }
    columns = dict(new.columns)
    for name, column in rows.values.items():
        old = column.like(new.columns[name])
        columns[name] = _joined_column(old, new.columns[name], kept, new, runs)
    total = int(runs.offsets[-1])
    return Chunk(total, feeds, valids, columns, new.taken, new.frame, new.items)


def _joined_mask(
    old: Mask | None, new: Mask | None, kept: int, came: int, runs: Runs
) -> Mask | None:
    if old is None and new is None:
        return None
    all_old = np.ones(kept, np.bool_) if old is None else old
    all_new = np.ones(came, np.bool_) if new is None else new
    mask: Mask = runs.join(all_old.view(np.uint8), all_new.view(np.uint8)).view(np.bool_)
    return mask


def _joined_column(old: Column, new: Column, kept: int, chunk: Chunk, runs: Runs) -> Column:
    """Old and new values of a column that answers are taken from."""
    valid = _joined_mask(old.valid if kept else None, new.valid, kept, chunk.rows, runs)
    if new.values is not None:
        olds = np.zeros(0, new.values.dtype) if old.values is None or not kept else old.values
        return new._replace(values=runs.join(olds, new.values), valid=valid)
    places = runs.join(np.arange(kept), np.arange(kept, kept + chunk.rows))
    native = chunk.frame.join_natives(old.native, new.native) if kept else new.native
    return new._replace(valid=valid, native=chunk.frame.take_native(native, places))
