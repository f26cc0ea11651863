"""StoredCodes: which codes of texts and other values the rows have that are on a store."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.paged_rows import PagedRows
from mta.plan import Feed

_AT_LEAST = 4096  # codes that are looked at together


class StoredCodes:
    """The rows of a track that have left memory, as `mta.rows.Coders` asks for them."""

    def __init__(self, rows: PagedRows) -> None:
        self._rows = rows
        self.first, self.end = rows.repository.front, rows.end

    def feed(self, feed: Feed) -> NDArray[Any]:
        """Every code once, but of sketches: what a store has of these are items of a log.

        Cost: a read for each block that is not in memory.

        Raises
        ------
        StoreError
            One could not be read.
        """
        if feed.takes_sketches:
            return np.zeros(0, np.int64)
        return self._codes(self._rows.names.feeds[feed])

    def of_taken(self, column: str) -> NDArray[np.int64]:
        """Those of a column that answers are taken from, of the newest rows too. As `feed`."""
        tail = self._rows.tail.columns()[column].values
        assert tail is not None
        return np.union1d(self._codes(self._rows.names.taken[column]), tail.view(np.int64))

    def _codes(self, name: str) -> NDArray[np.int64]:
        found = np.zeros(0, np.int64)
        more: list[NDArray[np.int64]] = []
        waiting = 0
        for part in self._rows.repository.rows(self.first, self.end):
            more.append(np.unique(part.columns[name]))
            waiting += len(more[-1])
            if waiting > _AT_LEAST + len(found):
                found, more, waiting = np.unique(np.concatenate([found, *more])), [], 0
        return np.unique(np.concatenate([found, *more]))
