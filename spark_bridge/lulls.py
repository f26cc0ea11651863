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
(``trigger(processingTime="5 seconds")``). After a restart, though, it runs none before a source has
something new. So there is one more source, a clock of which no row comes through (`beats`): a lull
that a restart cuts goes on, and has been as long as the rows have been away, the time without a
query included. (With ``availableNow`` such a query takes all that is there in one micro-batch, as
this source knows no other way, and ends.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_bridge.blobs import PACKED_TYPES


def beats(spark: Any) -> Any:
    """A stream that always has something new, and never a row; in the columns of packed rows."""
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1)
    types = [column.split() for column in PACKED_TYPES.split(", ")]
    return (
        clock.load()
        .where("value < 0")
        .selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in types))
    )


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
