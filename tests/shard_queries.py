"""The stateful processor of streams on Spark in pyspark's TwsTester, for tests: without a query."""

from __future__ import annotations

import copy

import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.streaming import tws_tester as tws

from spark_bridge import blobs, state, streaming
from spark_bridge.shards import delay_ms, idle_ms, told_from_outside
from spark_bridge.together import specs_of

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("i", pa.int64())])


@st.composite
def micro_batches(draw):
    """Micro-batches of rows out of order, each of one or two partitions."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=7))
    values = st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(float("nan")))
    made, at = [], 0
    for batch, size in enumerate(sizes):
        times = [3 + 6 * batch + draw(st.integers(-12, 9)) for _ in range(size)]
        rows = {
            "t": times,
            "k": [draw(st.sampled_from(["a", "b", "c", None])) for _ in times],
            "x": [draw(values) for _ in times],
            "i": range(at, at + size),
        }
        table = pa.table(rows, schema=SCHEMA)
        cut = draw(st.integers(0, size))
        made.append([table.slice(0, cut), table.slice(cut)])
        at += size
    return made


class Tester(tws.TwsTester):
    """That has a watermark where timers are of the clock, as Spark has."""

    def _getTimerValues(self):
        return tws.TimerValues(self._currentProcessingTimeMs, self._currentWatermarkMs)


class Query:
    """What Spark does with a stream, in one process."""

    def __init__(self, spec, shards=2, eager=False):
        specs = specs_of(spec)
        self.spec, self.shards = specs[0], shards
        self.idle = idle_ms(specs[0])
        inside = told_from_outside(specs)
        processor = streaming.ShardProcessor(inside, shards, True, eager, self.idle)
        mode = "EventTime" if self.idle is None else "ProcessingTime"
        self.tester = Tester(processor, timeMode=mode, eventTimeExtractor=lambda row: 2**62)
        self.newest, self.told = 0, []

    def run(self, parts, mishap=None):
        """One micro-batch."""
        self._go_on()
        before = copy.deepcopy(self._kept())
        if mishap == "cold":
            state.COPIES.held.clear()
        made = self._take(parts)
        if mishap == "failed":  # what it has written is lost; the worker lives on
            self._kept(before)
            made = self._take(parts)
        self.told.append(made)
        for part in parts:
            self.newest = max([self.newest, *blobs.milliseconds(part["t"], "t").tolist()])

    def run_at(self, clock, parts, mishap=None):
        """One micro-batch at this time, in which timers are of the clock; perhaps without rows."""
        now = self.newest - delay_ms(self.spec)
        self.tester._currentWatermarkMs = max(self.tester._currentWatermarkMs, now)
        self.tester._currentProcessingTimeMs = clock
        before = copy.deepcopy(self._kept())
        if mishap == "cold":
            state.COPIES.held.clear()
        made = [self._take(parts), self.tester._handleExpiredTimers()]  # in Spark's order
        if mishap == "failed":
            self._kept(before)
            made = [self._take(parts), self.tester._handleExpiredTimers()]
        assert not any(map(len, parts)) or not len(made[1])
        self.told += made
        for part in parts:
            self.newest = max([self.newest, *part["t"].to_pylist()])

    def lull(self, ms=10_000):
        """No rows, and no more rows ever before this."""
        self.newest = ms
        self._go_on()

    def output(self, column):
        """The rows that have come out."""
        found = [x for made in self.told if len(made) for x in made[column] if x is not None]
        return [row for x in found for row in blobs.from_blob(bytes(x)).to_pylist()]

    def _go_on(self):
        now = self.newest - delay_ms(self.spec)
        if now > self.tester._currentWatermarkMs:
            self.told.append(self.tester.setWatermark(now))

    def _take(self, parts):
        packed = []
        for number, part in enumerate(parts):
            keyed = bool(streaming.shard_keys(self.spec))
            keys = zip(*(part[name].to_pylist() for name in self.spec.by), strict=True)
            codes = [hash(k) % self.shards for k in keys] if keyed else [0] * len(part)
            rows = part.append_column("shard", pa.array(codes, pa.int32()))
            everyone = 0 if self.idle is None else self.shards if keyed else 1
            packed += blobs.pack(part.column_names, "t", number, rows.to_batches(), everyone)
        if not packed:
            return pd.DataFrame({"answers": [], "late": []})
        frame = pa.Table.from_batches(packed[::-1]).to_pandas()  # parts come in any order
        groups = [(shard, rows) for shard, rows in frame.groupby("shard")]
        made = [self.tester.testInPandas(shard, rows) for shard, rows in groups]
        return pd.concat([m for m in made if len(m)] or made)

    def _kept(self, kept=None):
        handle = self.tester.handle
        found = [handle.value_states["head"].state, handle.map_states["pieces"].state] if hasattr(
            handle, "value_states") and "head" in handle.value_states else []  # fmt: skip
        found += [handle._timers._key_to_timers]
        for now, then in zip(found, kept or found, strict=True):
            if kept is not None:
                now.clear()
                now.update(copy.deepcopy(then))
        return found


def comparable(rows):
    return sorted(repr(sorted(row.items())) for row in rows)


def on_time(spec, batches):
    """The rows that are not late, and the late ones, of a trailing window; told by its words."""
    newest, kept, late = 0, [], []
    for parts in batches:
        table = pa.concat_tables(parts)
        now = newest - spec.progress.delay.amount
        edge = now - (spec.lateness.within.amount if spec.lateness else 0) if now > 0 else -(10**9)
        for row in table.to_pylist():
            (late if row["t"] < edge else kept).append(row)
        newest = max([newest, *table["t"].to_pylist()])
    return pa.Table.from_pylist(kept, SCHEMA), late
