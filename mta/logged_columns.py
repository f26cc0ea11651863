"""LoggedColumns: sketches to be merged, which are large: those of a track's rows are in logs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mta.count_log import Logs
from mta.item_log import ItemLog, LoggedItems, logged_codes
from mta.plan import Feed
from mta.rows import Chunk, KeptRows


class LoggedColumns:
    """Of the feeds of one track that take sketches: the log that has them, by number of their row.

    Rows come with codes of what is in memory; once they are settled, their items go to the log.

    logs : of the track
    """

    def __init__(self, feeds: list[Feed], logs: Logs) -> None:
        self.logs: dict[Feed, ItemLog] = {feed: logs.items_of(k) for k, feed in enumerate(feeds)}
        self._items = {feed: LoggedItems(log) for feed, log in self.logs.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of them in memory."""
        return sum(log.nbytes for log in self.logs.values())

    def chunk(self, chunk: Chunk) -> Chunk:
        """The same rows, whose codes also stand for items of the logs."""
        if not self.logs:
            return chunk
        for feed, items in self._items.items():
            items.known = chunk.items.get(feed) or {}
        return chunk._replace(items={**chunk.items, **self._items})

    def take_in(self, rows: KeptRows) -> None:
        """Move the items of the newest rows to the logs.

        Raises
        ------
        StoreError
            A chunk could not be written. Those rows whose codes still stand for items in memory
            are next.
        """
        for feed, log in self.logs.items():
            known, codes = self._items[feed].known, rows.feed(feed).view(np.int64)
            valid = next((rows.valid(s) for s in rows.valids if s.columns == (feed.column,)), None)
            for row in range(log.end, rows.end):
                place = row - rows.first
                counts = valid is None or valid[place]
                log.append(known[int(codes[place])] if counts else b"", row)
                codes[place] = -1 - row
                if log.is_full:
                    log.make_room()

    def tell(self, rows: KeptRows) -> None:
        """Give those rows the codes of items that the logs have of them."""
        for feed, log in self.logs.items():
            if feed in rows.feeds:
                stop = min(log.end, rows.end)
                rows.feed(feed).view(np.int64)[: max(stop - rows.first, 0)] = logged_codes(
                    rows.first, stop
                )

    def let_go(self, row: int) -> None:
        """No row before this one is needed any more."""
        for log in self.logs.values():
            log.let_go(row)

    def thin_out(self) -> None:
        """Keep no more in memory than is needed.

        Raises
        ------
        StoreError
            A chunk could not be written.
        """
        for log in self.logs.values():
            log.thin_out()

    def to_parts(self) -> list[bytes]:
        """What a header has to hold: for `fill`."""
        return [part for log in self.logs.values() for part in log.to_parts()]

    def fill(self, parts: Iterator[bytes]) -> None:
        """Take what `to_parts` gave.

        Raises
        ------
        ValueError, DamageError
            It is damaged.
        """
        for log in self.logs.values():
            log.fill(next(parts), next(parts))
