"""apply() on streams: specs over a live DataFrame, in append mode.

The plan is ``mapInArrow`` (packs the rows of each **shard**, a hash of the keys, into one blob a
partition and micro-batch) → ``withWatermark`` → ``groupBy(shard)`` →
``transformWithStateInPandas`` (a stream of `mta` for each shard and spec) → ``mapInArrow``
(unpacks the answers). A shard is called once a micro-batch however many keys it has. Only the
public DataFrame API is used.

**When.** Spark's watermark W of a micro-batch is the greatest time of all micro-batches before it,
less ``spec.watermark(delay)``, in whole milliseconds; it never goes back. All shards see the same
W. In a micro-batch, time first goes on to W, and answers that are complete by it are given; then
the rows come, and those that come behind W as ``spec.late`` has it are late. So rows of one
micro-batch never make each other late, and neither answers nor lateness depend on shards or
partitions. W is 1970 until a later time has come; before, nothing is late and nothing is final.

**Late rows.** A packed row has no time of its own when it comes to the operator (its column is
dropped after ``withWatermark``), so Spark's own filter, which would drop a blob whole, sees none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mta.arguments import no_whole
from mta.bucket_stream import BucketStream
from mta.errors import SpecError
from mta.periodic import FIRST, Landmark, Periodic
from mta.progress import Watermark
from mta.spec_arguments import check_choice
from mta.specs import Rolling, Spec, Streamed
from spark_bridge.ahead import REVISION
from spark_bridge.blobs import GUARD, PACKED_TYPES, ROWS, from_blob, pack, to_blob, unpack
from spark_bridge.lulls import Lull, beats
from spark_bridge.schemas import check_case, periodic_schema, quoted, rolling_schema
from spark_bridge.shards import Taken, delay_ms, idle_ms, told_from_outside
from spark_bridge.state import Head, ShardStore
from spark_bridge.together import check_together_on_stream, specs_of

SHARDS = 16
METRICS = "mta"
OUTPUTS = {
    "final": "each answer once, when the watermark has gone past it",
    "eager": "answers as of each micro-batch, and again when they change, up to the watermark",
}
MADE = "answers binary, late binary, received bigint, late_rows bigint, answer_rows bigint"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def apply(
    spec: Spec | Sequence[Spec],
    sdf: DataFrame,
    *,
    shards: int = SHARDS,
    late: str | None = None,
    metrics: str = METRICS,
    output: str = "final",
) -> DataFrame:
    """The answers of a spec over a stream; or of several, side by side in one row.

    Parameters
    ----------
    spec : with ``.watermark(delay)``. Of its other options only `idle_after` is not refused, as
        Spark has one watermark: time then goes on by the clock when no rows have come for so long,
        and the query needs a trigger with an interval (see `spark_bridge.lulls`).
        Or several trailing specs of the same `by`, `on` and watermark, which share packing, shuffle
        and state calls; a row is final when all its answers are. (Each spec keeps the rows of its
        own windows, in the columns that it reads.)
    sdf : a streaming DataFrame
    shards : how many groups the keys are put into; a checkpoint keeps it. A micro-batch costs a few
        state calls a shard. At least as many as tasks that shall work at once
        (``spark.sql.shuffle.partitions``).
    late : name of one more column, for rows that come too late: a struct of the input's columns,
        null in answers; in such a row everything else is null. Without it they are only counted.
    metrics : name of the query's observed metrics, ``received``, ``late``, ``answers``, of each
        micro-batch (``query.lastProgress.observedMetrics``)
    output : when a row of a trailing window, or a window by number, is answered

        - "final" (default): once, when the watermark has gone past it
        - "eager": in the micro-batch that brings the row, or rows into the window, from what has
          come so far; and again whenever its answer changes by rows that come later, up to the
          watermark. "revision" says its how manieth answer it is; the last one is the final one.
          Costs about as much again as "final", in every micro-batch with rows, for all rows that
          wait, or all windows that are open and hold a row; the state holds what these were told.

    Returns
    -------
    DataFrame
        A trailing window: the input's columns and the answers (after "revision", where answers may
        come again). Windows by number: the columns of `by`, "start", "end", "revision", the
        answers.

    Raises
    ------
    ColumnError, DataError, SpecError
        As on batches, or the spec asks for what no stream of Spark can do; the message says what.
    """
    specs = check(spec, sdf, shards, output)
    for argument, name in (("late", late), ("metrics", metrics)):
        if not (isinstance(name, str) and name) and (name is not None or argument == "metrics"):
            raise SpecError(f"{argument}: must be a name, not {name!r}")
    check_case(specs, sdf, late)
    eager = output == "eager"
    schema, names = _schemas(specs, sdf.schema, late, eager)
    inside = told_from_outside(specs)
    plain = {name: f"c{i}" for i, name in enumerate(names)}
    on = str(specs[0].on)

    def pack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        return pack(names, on, 0 if task is None else task.partitionId(), batches, everyone)

    def unpack_answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(arrow, late, batches)

    arrow = to_arrow_schema(schema, timezone="UTC")
    rows = sdf.select([F.col(quoted(name)).alias(short) for name, short in plain.items()])
    keys, idle = [plain[name] for name in shard_keys(specs[0])], idle_ms(specs[0])
    everyone = 0 if idle is None else shards if keys else 1
    hashed = F.pmod(F.xxhash64(*keys), F.lit(shards)) if keys else F.lit(0)
    packed = rows.withColumn(f"c{len(names)}", hashed.cast("int")).mapInArrow(
        pack_rows, PACKED_TYPES
    )
    if idle is not None:
        packed = packed.union(beats(sdf.sparkSession))
    timed = packed.withColumn("ts", F.timestamp_millis("ms"))
    marked = timed.withWatermark("ts", f"{delay_ms(specs[0])} milliseconds").drop("ts", "ms")
    made = marked.groupBy("shard").transformWithStateInPandas(
        ShardProcessor(inside, shards, late is not None, eager, idle),
        MADE,
        "append",
        "eventTime" if idle is None else "processingTime",
    )
    counts = {"received": "received", "late": "late_rows", "answers": "answer_rows"}
    told = [F.sum(column).alias(name) for name, column in counts.items()]
    return made.observe(metrics, *told).mapInArrow(unpack_answers, schema)


def shard_keys(spec: Streamed) -> tuple[str, ...]:
    """The columns that say which shard a row is in; without any, all rows are in one."""
    # A landmark answers quiet keys, too, as long as any key has rows: it has to see all of them.
    return () if isinstance(spec, Landmark) else spec.by


class ShardProcessor(StatefulProcessor):
    """What Spark calls for every shard that has rows in a micro-batch, or waits for time.

    specs : from `told_from_outside`
    keeps_late : whether late rows are handed out
    eager : as of `Shard`
    idle_after : as of `Lull.quiet`; None: time stands still while no rows come
    """

    def __init__(
        self,
        specs: Sequence[Streamed],
        shards: int,
        keeps_late: bool,
        eager: bool = False,
        idle_after: int | None = None,
    ) -> None:
        self.specs, self.shards, self.keeps_late, self.eager = specs, shards, keeps_late, eager
        self.idle_after = idle_after

    def init(self, handle: Any) -> None:
        """Begin a task."""
        self.handle = handle
        self.store = ShardStore(handle, self.specs, self.shards, self.eager)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Take the blobs of a shard; or, in the group that is none, check the checkpoint."""
        packed = list(rows)
        if int(key[0]) == GUARD:
            self.store.guard()
            return
        yield from self._step(timerValues, _in_order(pd.concat(packed)))

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Time has gone on, and the shard had no rows."""
        yield from self._step(timerValues, None, expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """End a task."""

    def _step(
        self, timers: Any, table: pa.Table | None, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Time goes on, and then rows come.

        fired : the timer by which Spark has called, as no rows have come
        """
        now = max(timers.getCurrentWatermarkInMs(), 0)  # 0 is Spark's word for none
        head = self.store.read()
        wanted = self._in_lull(head.lull, timers.getCurrentProcessingTimeInMs(), now, fired)
        watermark = max(now, head.lull.reached) or None
        shard = self.store.load(head)
        taken = shard.take(watermark, table)
        self.store.log(head, watermark, table)
        if self.idle_after is None and shard.waits:
            wanted = now + 1
        self._set_timer(head, fired, wanted)
        self.store.write(head, shard)
        yield from self._made(taken, 0 if table is None else len(table))

    def _in_lull(self, lull: Lull, clock: int, now: int, fired: int | None) -> int | None:
        """When to look at the clock next."""
        if self.idle_after is None:
            return None
        return lull.rows(clock) if fired is None else lull.quiet(clock, now, self.idle_after)

    def _set_timer(self, head: Head, fired: int | None, wanted: int | None) -> None:
        """One timer a shard: to be called when time goes on.

        fired : by which Spark has called, and which it removes itself
        """
        if head.timer not in (None, fired):
            self.handle.deleteTimer(head.timer)
        if wanted is not None:
            self.handle.registerTimer(wanted)
        head.timer = wanted

    def _made(self, taken: Taken, received: int) -> Iterator[pd.DataFrame]:
        late, answers = taken.late, taken.answers
        late_rows = 0 if late is None else len(late)
        if late_rows or received:
            kept = to_blob(late) if late is not None and self.keeps_late else None
            yield _told(None, kept, received, late_rows, 0)
        if answers is None:
            return
        for start in range(0, len(answers), ROWS):
            part = answers.slice(start, ROWS)
            yield _told(to_blob(part), None, 0, 0, len(part))


def _in_order(packed: pd.DataFrame) -> pa.Table | None:
    """The rows of all blobs, in the order of the stream's partitions."""
    blobs = packed.sort_values(["part", "place"], kind="stable")["blob"].dropna()
    return pa.concat_tables([from_blob(bytes(blob)) for blob in blobs]) if len(blobs) else None


def _told(
    answers: bytes | None, late: bytes | None, received: int, late_rows: int, rows: int
) -> pd.DataFrame:
    names = [field.strip().split()[0] for field in MADE.split(",")]
    return pd.DataFrame([(answers, late, received, late_rows, rows)], columns=names)


# ---- what is asked ------------------------------------------------------------------------------


def check(spec: Any, sdf: DataFrame, shards: Any = SHARDS, output: str = "final") -> list[Streamed]:
    """Refuse what no stream of Spark can do; the specs, one or several.

    Raises
    ------
    SpecError
        A spec has no delay, or asks for more than one watermark for all rows can give; or several
        can't share a stream.
    """
    specs = specs_of(spec)
    if why := no_whole(shards, 1, 2**31 - 1):
        raise SpecError(f"shards: {why}")
    check_choice(output, "output", tuple(OUTPUTS))
    for one in specs:
        _check_spec(one, output == "eager")
    check_together_on_stream(specs)
    _check_session(sdf)
    if idle_ms(specs[0]) is not None and str(sdf.sparkSession.conf.get(NO_DATA, "true")) != "true":
        raise SpecError(f"idle_after: is told by micro-batches without rows; set {NO_DATA} to true")
    return specs


def _check_spec(spec: Streamed, eager: bool) -> None:
    if spec.on is None:
        raise SpecError("on: a stream of Spark has no order but that of a time column")
    if eager:
        _check_eager(spec)
    _check_watermark(spec.progress)
    if isinstance(spec, Rolling):
        _check_rolling(spec)
        return
    assert isinstance(spec, Periodic)
    BucketStream(replace(spec, progress=Watermark()))  # refuses what the workers would
    if spec.origin == FIRST:
        raise SpecError("origin: which row comes first is not known of a stream of Spark")


def _check_eager(spec: Streamed) -> None:
    """Refuse what can't be answered ahead of time."""
    if not isinstance(spec, Rolling):
        return
    if spec.every is not None:
        raise SpecError(
            "output: 'eager' can't be had with every=: late rows change which are asked"
        )
    if spec.lateness is not None and spec.lateness.mode == "revise":
        raise SpecError(
            "output: 'eager' revises answers up to the watermark; make its delay longer in place "
            "of late('revise')"
        )


def _check_watermark(told: Watermark | None) -> None:
    if told is None or told.delay is None:
        raise SpecError("watermark: a stream needs .watermark(delay), as Spark's withWatermark")
    reasons = {
        "source": "Spark has one watermark for all sources, that of combine='max'",
        "max_ahead": "Spark's watermark believes every row",
        "punctuation": "Spark's watermark is told by times only",
    }
    if told.combine == "max":  # the greatest of the greatest times, whoever is silent
        del reasons["source"]
    for option, reason in reasons.items():
        if getattr(told, option) is not None:
            raise SpecError(f"{option}: {reason}; leave it out")
    if told.idle_after is not None and told.idle_after.amount == 0:
        raise SpecError("idle_after: must be longer than nothing")


def _check_rolling(spec: Rolling) -> None:
    if not spec.by_rank:
        raise SpecError("every_by: rows of a Spark DataFrame do not arrive in any order")
    looks_ahead = isinstance(spec.lag, int) and spec.lag < 0
    revises = spec.lateness is not None and spec.lateness.mode == "revise"
    if looks_ahead and (revises or spec.every is not None):
        asked = "late: rows can't revise" if revises else "every: rows can't be picked from"
        raise SpecError(f"{asked} windows that wait for a number of rows to come (lag={spec.lag})")


def _check_session(sdf: DataFrame) -> None:
    provider = sdf.sparkSession.conf.get(PROVIDER, "")
    if "RocksDB" not in str(provider):
        raise SpecError(
            f"{PROVIDER}: Spark keeps the state of Python functions in RocksDB only; set it to org."
            "apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise SpecError("protobuf: Spark needs it for state in Python: pip install protobuf")


def _schemas(
    specs: Sequence[Streamed], schema: T.StructType, late: str | None, eager: bool = False
) -> tuple[T.StructType, list[str]]:
    """The columns that come out, and those of the input that are needed."""
    spec = specs[0]
    if isinstance(spec, Rolling):
        trailing = [one for one in specs if isinstance(one, Rolling)]
        made, names = rolling_schema(trailing, schema), schema.names
        if eager or (spec.lateness is not None and spec.lateness.mode == "revise"):
            if REVISION in made.names[len(names) :]:
                raise SpecError(f"agg: {REVISION!r} says how often a row has been answered")
            at = len(schema.names)
            made = T.StructType([*made.fields[:at], _revision(schema), *made.fields[at:]])
    else:
        assert isinstance(spec, Periodic)
        made = periodic_schema(spec, schema)
        at = len(spec.by) + 2
        made = T.StructType([*made.fields[:at], _revision(None), *made.fields[at:]])
        used = {*spec.by, spec.on, *(c for _, a in spec.aggs for c in a.columns)}
        names = [n for n in schema.names if late is not None or n in used]
    if late is not None:
        if late in made.names:
            raise SpecError(f"late: {late!r} is a column of the output; give it another name")
        made = T.StructType([*made.fields, T.StructField(late, schema, True)])
        made = T.StructType([T.StructField(f.name, f.dataType, True) for f in made.fields])
    return made, names


def _revision(schema: T.StructType | None) -> T.StructField:
    if schema is not None and REVISION in schema.names:
        raise SpecError(f"late: {REVISION!r} is a column of the input, and of revised answers")
    return T.StructField(REVISION, T.LongType(), True)


# ---- what is built -------------------------------------------------------------------------------


def explain(
    spec: Spec | Sequence[Spec], sdf: DataFrame, *, shards: int = SHARDS, output: str = "final"
) -> str:
    """What `apply` builds of specs over a stream, and when answers and rows are final and late."""
    specs = check(spec, sdf, shards, output)
    schema, names = _schemas(specs, sdf.schema, None, output == "eager")
    spec = specs[0]
    mode = spec.lateness.mode if spec.lateness is not None else "drop"
    keys = ", ".join(shard_keys(spec))
    shared = f"{shards} of xxhash64({keys})" if keys else "one for all rows"
    waits = "the rows that wait for the watermark, and " if isinstance(spec, Rolling) else ""
    held = f"streams of {len(specs)} specs hold" if len(specs) > 1 else "stream of mta holds"
    lull = idle_ms(spec)
    idle = "" if lull is None else f"; by the clock when there were no rows for {lull} ms"
    lines = {
        "pack": f"mapInArrow: {len(names)} columns to one Arrow blob a shard ({shared}), partition "
        "and micro-batch",
        "time": f"withWatermark, {delay_ms(spec)} ms behind the greatest time of the "
        f"micro-batches before; one for all shards{idle}",
        "state": "transformWithStateInPandas by shard: a checkpoint and a log of the rows since; "
        f"{waits}what the {held} of open windows",
        "late": f"{mode}; counted in the observed metrics and in the state",
        "gives": f"append, {OUTPUTS[output]}: {', '.join(schema.names)}",
    }
    return "\n".join([*map(repr, specs), *(f"{name:9}{text}" for name, text in lines.items())])
