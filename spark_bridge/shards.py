"""A shard: one stream of `mta` over many keys, whose watermark is told from outside.

Nothing here knows Spark; `spark_bridge.state` keeps shards between micro-batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mta._frames_arrow import ArrowFrame
from mta.durations import Duration
from mta.engine import time_values
from mta.errors import SpecError
from mta.periodic import Periodic
from mta.progress import Watermark
from mta.push import NEVER
from mta.snapshot import seal, unseal
from mta.specs import Rolling, Streamed
from mta.stream import RollingStream
from mta.stream_blocks import Checkpoint, checkpoint, stream_from_checkpoint
from spark_bridge.ahead import Ints, Told
from spark_bridge.blobs import MS_OF_DAY, from_blob, to_blob

KIND = "shard"
REVISION = "revision"
NUMBER, ANSWERED = "\0row", "\0answered"  # columns that no one else calls so


class Taken(NamedTuple):
    """What came of a call: answers, and the rows that were late (None: there are none)."""

    answers: pa.Table | None
    late: pa.Table | None


def told_from_outside(spec: Streamed) -> Streamed:
    """The same windows, whose rows tell nothing about how far time has come."""
    return replace(spec, progress=Watermark())


def delay_ms(spec: Streamed) -> int:
    """The delay of a spec in milliseconds, or the next greater one."""
    delay = spec.progress.delay if spec.progress is not None else None
    assert isinstance(delay, Duration)
    return delay.amount if delay.ticks else -(-delay.amount // 1_000_000)


def new_stream(spec: Streamed) -> Any:
    """The stream of a shard; of windows by number, one that holds partial aggregates, if it can.

    What it holds is what a checkpoint holds: with panes much less than rows, and a row changes one
    of them instead of the range / slide that plan "auto" may choose.
    """
    if not isinstance(spec, Periodic):
        return spec.stream()  # type: ignore[attr-defined]
    for plan in ("adapt", "paned"):
        try:
            return spec.stream(plan=plan)
        except SpecError:  # that plan has no such aggregates or windows
            continue
    return spec.stream()


class Shard:
    """The stream of a shard's keys and, of a trailing window, the rows that wait for answers.

    spec : from `told_from_outside`
    data : the head that `checkpoint` gave; the shard goes on from there
    read : gives the blocks that belong to it, by their numbers
    eager : rows of a trailing window are answered when they come, and again where that changes
    """

    def __init__(
        self,
        spec: Streamed,
        data: bytes | None = None,
        read: Callable[[int], bytes] | None = None,
        eager: bool = False,
    ) -> None:
        self.spec = spec
        self.watermark: int | None = None
        self.answers = 0
        self.waiting = WaitingRows(spec, eager) if isinstance(spec, Rolling) else None
        if data is None:
            self.stream: Any = new_stream(spec)
            return
        head, stream, rows, ahead = unseal(KIND, spec.identity(), data)
        told = json.loads(head)
        if isinstance(spec, Rolling) and read is not None:
            self.stream = stream_from_checkpoint(spec, stream, read)
        else:
            self.stream = spec.stream(stream)  # type: ignore[attr-defined]
        self.watermark, self.answers = told["watermark"], int(told["answers"])
        if self.waiting is not None and rows:
            self.waiting.fill(from_blob(rows), from_blob(ahead) if ahead else None)

    def checkpoint(self) -> Checkpoint:
        """What is to be kept now: versioned, checksummed, no code inside.

        Of a trailing window the rows are in blocks, written once. Of windows by number everything
        is in the head, which holds partial aggregates where there are any.
        """
        head = json.dumps({"watermark": self.watermark, "answers": self.answers}).encode()
        told = (
            checkpoint(self.stream)
            if isinstance(self.stream, RollingStream)
            else Checkpoint(self.stream.to_bytes(), {}, [])
        )
        waiting = self.waiting
        tables = [None, None] if waiting is None else [waiting.table(), waiting.told_table()]
        parts = [head, told.head, *(b"" if t is None else to_blob(t) for t in tables)]
        return told._replace(head=seal(KIND, self.spec.identity(), parts))

    def take(self, watermark: int | None, table: pa.Table | None) -> Taken:
        """Time goes on, and then rows come; whether they are late is a matter of that time.

        watermark : in milliseconds (None: there is none yet)
        """
        rows = None if table is None else self._numbered(table)
        made: list[pa.Table] = []
        if rows is not None and self.stream.frame is None:
            self.stream.push(rows.slice(0, 0))  # which says what a time is
        if watermark is not None and self.stream.frame is not None:
            if watermark != self.watermark:
                made.append(self._labelled(self.stream.advance(self._time(watermark))))
            self.watermark = watermark
        if rows is not None:
            if self.waiting is not None:
                self.waiting.add(rows)
            made.append(self._labelled(self.stream.push(rows)))
        late = self._late()
        if rows is not None and self.waiting is not None and self.waiting.told is not None:
            answers = self.stream.peek()
            made.append(self.waiting.ahead(self.stream.answered_rows, answers))
        if self.waiting is not None and self.stream.ticks is not None:
            self.waiting.forget(self.stream)
        answers = pa.concat_tables([m for m in made if len(m)]) if any(map(len, made)) else None
        self.answers += 0 if answers is None else len(answers)
        return Taken(answers, late)

    @property
    def waits(self) -> bool:
        """Whether time alone may bring answers."""
        if self.waiting is not None:
            return self.waiting.unanswered
        held = self.stream.state()
        return bool(held["rows"] or held["partials"])

    def _numbered(self, table: pa.Table) -> pa.Table:
        if self.waiting is None:
            return table
        first = self.stream.received
        numbers = pa.array(np.arange(first, first + len(table)))
        return table.append_column(NUMBER, numbers)

    def _labelled(self, answers: pa.Table) -> pa.Table:
        if self.waiting is None:
            return answers
        assert isinstance(self.stream, RollingStream)
        return self.waiting.with_answers(self.stream.answered_rows, answers)

    def _late(self) -> pa.Table | None:
        rows = self.stream.late()
        if rows is None or not len(rows):
            return None
        return rows if self.waiting is None else self.waiting.drop_late(rows)

    def _time(self, ms: int) -> Any:
        """A watermark as the time column has it; a day that has begun is over: no row is in it."""
        unit = self.stream.ticks.unit
        if unit in ("i", None):
            return ms
        if unit == "d":
            return np.datetime64(-(-ms // MS_OF_DAY), "D")
        return np.datetime64(ms, "ms")


class WaitingRows:
    """Rows of a trailing window that may be answered (again): whole, as they are given back.

    (The stream itself keeps just the columns that its aggregates use.)
    """

    def __init__(self, spec: Rolling, eager: bool = False) -> None:
        self.spec = spec
        self.names = [name for name, _ in spec.aggs]
        self.told = Told(self.names) if eager else None
        self.revises = spec.lateness is not None and spec.lateness.mode == "revise"
        self.rows: pa.Table | None = None
        self.numbers = np.zeros(0, np.int64)  # of their arrival; rising
        self.answered = np.zeros(0, np.bool_)

    @property
    def unanswered(self) -> bool:
        """Whether there are rows without an answer."""
        return not bool(self.answered.all())

    def add(self, rows: pa.Table) -> None:
        """Rows have come, with their numbers."""
        plain = rows.drop_columns([NUMBER])
        self.rows = plain if self.rows is None else pa.concat_tables([self.rows, plain])
        self.numbers = np.concatenate([self.numbers, rows.column(NUMBER).to_numpy()])
        self.answered = np.concatenate([self.answered, np.zeros(len(rows), np.bool_)])

    def with_answers(self, numbers: Ints, answers: pa.Table) -> pa.Table:
        """The rows with these numbers, and their final answers beside them."""
        if self.rows is None or not len(numbers):
            return answers.slice(0, 0)
        self.answered[self.numbers.searchsorted(numbers)] = True
        if self.told is not None:
            new, revisions = self.told.news(numbers, answers)
            self.told.forget(numbers)
            return self._changed(numbers, answers, new, revisions)
        return self._beside(numbers, answers)

    def ahead(self, numbers: Ints, answers: pa.Table) -> pa.Table:
        """The rows that wait, and have these numbers, with the answers that they would have now;
        those of them that were not told so already."""
        assert self.told is not None
        new, revisions = self.told.news(numbers, answers)
        self.told.keep(numbers, revisions, answers)
        return self._changed(numbers, answers, new, revisions)

    def _changed(
        self, numbers: Ints, answers: pa.Table, new: NDArray[np.bool_], revisions: Ints
    ) -> pa.Table:
        counted = answers.append_column(REVISION, pa.array(revisions))
        return self._beside(numbers[new], counted.filter(pa.array(new)))

    def _beside(self, numbers: Ints, answers: pa.Table) -> pa.Table:
        assert self.rows is not None
        made = self.rows.take(pa.array(self.numbers.searchsorted(numbers)))
        numbered = self.revises or self.told is not None
        for name in [*([REVISION] if numbered else []), *self.names]:
            made = made.append_column(name, answers.column(name))
        return made

    def drop_late(self, rows: pa.Table) -> pa.Table:
        """These get no answer; as they came."""
        keep = np.ones(len(self.numbers), np.bool_)
        keep[self.numbers.searchsorted(rows.column(NUMBER).to_numpy())] = False
        self._keep(keep)
        return rows.drop_columns([NUMBER])

    def forget(self, stream: RollingStream) -> None:
        """Drop the rows that will not be answered any more."""
        if self.rows is None or not len(self.numbers):
            return
        if not self.revises and self.spec.every is None:
            self._keep(~self.answered)
            return
        ticks, progress = stream.ticks, stream.progress
        assert ticks is not None and self.spec.on is not None
        now = NEVER if progress is None or progress.now is None else progress.now
        edge = max(now, NEVER // 2) - stream._within() - max(-ticks.lag, 0) - 1
        recent = time_values(ArrowFrame(self.rows).column(self.spec.on), ticks) >= edge
        self._keep(recent | ~self.answered if self.spec.every is None else recent & ~self.answered)

    def table(self) -> pa.Table | None:
        """Everything, for a snapshot."""
        if self.rows is None:
            return None
        marked = self.rows.append_column(NUMBER, pa.array(self.numbers))
        return marked.append_column(ANSWERED, pa.array(self.answered))

    def told_table(self) -> pa.Table | None:
        """What these rows were told ahead of time, for a snapshot."""
        return None if self.told is None else self.told.table()

    def fill(self, table: pa.Table, told: pa.Table | None) -> None:
        """Take up what `table` and `told_table` gave."""
        if self.told is not None and told is not None:
            self.told.fill(told)
        self.numbers = table.column(NUMBER).to_numpy()
        self.answered = np.array(table.column(ANSWERED).to_numpy(zero_copy_only=False), np.bool_)
        self.rows = table.drop_columns([NUMBER, ANSWERED])

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        if self.rows is None or keep.all():
            return
        self.rows = self.rows.filter(pa.array(keep)).combine_chunks()
        self.numbers, self.answered = self.numbers[keep], self.answered[keep]
