"""Lulls: how time goes on while no rows come, ``spec.watermark(delay, idle_after=)``.

Spark's watermark is told by rows, so it stands still in a lull, and the last windows stay open.
With `idle_after`, once no rows have come for so long **by the clock**, time goes on as the clock
does: the watermark is Spark's, and as much later as the lull is long. It is moved on by micro-
batches without rows only, every `idle_after`, so a query that was down, or that works off what has
piled up, does not run ahead of its rows. It never goes back: what comes behind it after the lull is
late.

**Why all shards agree.** The clock is the time of the micro-batch, which Spark writes down before
it runs it, and gives again when it runs it again. Every shard is told of every micro-batch with
rows, whether they are its own (`pack`), so all have heard the last one at the same time, and set
the same timers.

**What Spark asks for.** Timers of the clock (``timeMode="processingTime"``). In this mode Spark
runs one micro-batch after the other, rows or not, so the trigger has to have an interval
(``trigger(processingTime="5 seconds")``), and a query with ``availableNow`` would never end. After
a restart it runs none before there are rows: a lull that a restart cuts goes on with the next rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Lull:
    """What a shard knows of the last micro-batch with rows, and of the time after it.

    heard : by the clock, in milliseconds
    reached : the watermark to which the clock has brought it
    """

    heard: int | None = None
    reached: int = 0

    def rows(self, clock: int) -> int:
        """Rows have come, of this shard or others. When to look next: what these rows say of time
        is known in the next micro-batch."""
        self.heard = clock
        return clock + 1

    def quiet(self, clock: int, watermark: int, idle_after: int) -> int:
        """No rows have come. When to look next.

        watermark : Spark's (0: there is none yet)
        """
        heard = clock if self.heard is None else self.heard
        if clock - heard < idle_after:
            return heard + idle_after
        if watermark > 0:
            self.reached = max(self.reached, watermark + clock - heard)
        return clock + idle_after
