"""kill −9 at any moment: the window opens again, no older than its last flush, and whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mta import agg, fifo
from store_child import opened
from store_window_child import KEEP, rows, window
from test_stores_killed import killed_often

CHILD = Path(__file__).with_name("store_window_child.py")
KILLS = 3
MORE = 2000


def check(kind: str, where: str, flushed: int) -> int:
    """The window against one in memory that has seen all that came in; how many those are."""
    with opened(kind, where) as store, window(store) as w:
        back, front = w.inserted, w.inserted - len(w)
        assert back >= flushed
        assert min(KEEP, back) <= len(w) <= KEEP + 1
        memory = fifo.AMTA(agg.std("x"), type="float")
        memory.insert_many(rows(0, back))
        memory.evict_many(front)
        assert repr(w.query()) == repr(memory.query())
        more = rows(back, back + MORE)
        np.testing.assert_array_equal(w.slide(more, KEEP), memory.slide(more, KEEP))
    return back + MORE


@pytest.mark.parametrize("kind", ["files", "lmdb", "lmdb behind", "rocksdb", "redis"])
def test_killed_while_it_slides(kind, tmp_path):
    killed_often(kind, tmp_path, KILLS, check, CHILD)
