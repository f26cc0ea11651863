"""A shard: streams of `mta` over many keys, whose watermark is told from outside.

Nothing here knows Spark; `spark_bridge.state` keeps shards between micro-batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
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
from spark_bridge.ahead import REVISION, Ints, Told, ToldWindows
from spark_bridge.blobs import MS_OF_DAY, from_blob, to_blob
from spark_bridge.together import NUMBER, Beside

KIND = "shard"
ANSWERED = "\0answered"  # a column that no one else calls so


class Taken(NamedTuple):
    """What came of a call: answers, and the rows that were late (None: there are none)."""

    answers: pa.Table | None
    late: pa.Table | None


def told_from_outside(specs: Sequence[Streamed]) -> tuple[Streamed, ...]:
    """The same windows, whose rows tell nothing about how far time has come."""
    return tuple(replace(spec, progress=Watermark()) for spec in specs)


def identity(specs: Sequence[Streamed]) -> str:
    """What a checkpoint says that it is of."""
    return "\n".join(spec.identity() for spec in specs)


def delay_ms(spec: Streamed) -> int:
    """The delay of a spec in milliseconds, or the next greater one."""
    delay = spec.progress.delay if spec.progress is not None else None
    assert isinstance(delay, Duration)
    return _ms(delay)


def idle_ms(spec: Streamed) -> int | None:
    """How long a lull is in which time goes on by the clock; None: it never does.

    (With a column of sources `idle_after` is about one that others leave behind.)
    """
    told = spec.progress
    if told is None or told.idle_after is None or told.source is not None:
        return None
    return _ms(told.idle_after)


def _ms(length: Duration) -> int:
    return length.amount if length.ticks else -(-length.amount // 1_000_000)


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
    """The streams of a shard's keys, one for each spec, and the rows that wait for answers.

    specs : from `told_from_outside`; several are trailing ones that answer the same rows
    data : the head that `checkpoint` gave; the shard goes on from there
    read : gives the blocks that belong to it, by their numbers
    eager : rows of a trailing window, and windows by number that rows have come into, are answered
        in the call that brings them, and again where that changes
    """

    def __init__(
        self,
        specs: Sequence[Streamed],
        data: bytes | None = None,
        read: Callable[[int], bytes] | None = None,
        eager: bool = False,
    ) -> None:
        self.specs = specs
        self.watermark: int | None = None
        self.answers = 0
        trailing = [spec for spec in specs if isinstance(spec, Rolling)]
        self.waiting = WaitingRows(trailing, eager) if trailing else None
        self.told = ToldWindows(specs[0].by) if eager and not trailing else None
        if data is None:
            self.streams: list[Any] = [new_stream(spec) for spec in specs]
            return
        head, *parts = unseal(KIND, identity(specs), data)
        told, count = json.loads(head), len(specs)
        self.streams = [self._stream(place, parts[place], read) for place in range(count)]
        self.watermark, self.answers = told["watermark"], int(told["answers"])
        tables = [from_blob(part) if part else None for part in parts[count:]]
        if self.waiting is not None:
            self.waiting.fill(tables)
        if self.told is not None:
            self.told.table = tables[0]

    def _stream(self, place: int, data: bytes, read: Callable[[int], bytes] | None) -> Any:
        spec, count = self.specs[place], len(self.specs)
        if isinstance(spec, Rolling) and read is not None:
            return stream_from_checkpoint(spec, data, lambda number: read(number * count + place))
        return spec.stream(data)  # type: ignore[attr-defined]

    def checkpoint(self) -> Checkpoint:
        """What is to be kept now: versioned, checksummed, no code inside.

        Of a trailing window the rows are in blocks, written once; block b of the i-th of n specs
        has the number b * n + i. Of windows by number everything is in the head, which holds
        partial aggregates where there are any.
        """
        head = json.dumps({"watermark": self.watermark, "answers": self.answers}).encode()
        told = [
            checkpoint(stream)
            if isinstance(stream, RollingStream)
            else Checkpoint(stream.to_bytes(), {}, [])
            for stream in self.streams
        ]
        rows = [b"" if table is None else to_blob(table) for table in self._tables()]
        sealed = seal(KIND, identity(self.specs), [head, *(one.head for one in told), *rows])
        count, placed = len(told), list(enumerate(told))
        return Checkpoint(
            sealed,
            {b * count + i: data for i, one in placed for b, data in one.blocks.items()},
            [b * count + i for i, one in placed for b in one.gone],
        )

    def _tables(self) -> list[pa.Table | None]:
        """What is held beside the streams."""
        if self.waiting is not None:
            return self.waiting.tables()
        return [None if self.told is None else self.told.table, None]

    def take(self, watermark: int | None, table: pa.Table | None) -> Taken:
        """Time goes on, and then rows come; whether they are late is a matter of that time.

        watermark : in milliseconds (None: there is none yet)
        """
        rows = None if table is None else self._numbered(table)
        if rows is not None and self.waiting is not None:
            self.waiting.add(rows)
        made: list[pa.Table] = []
        for place, stream in enumerate(self.streams):
            for answers in self._feed(stream, watermark, rows):
                if self.waiting is None:
                    made.append(answers)
                else:
                    self.waiting.beside.add(place, stream.answered_rows, answers)
        if watermark is not None and self.streams[0].frame is not None:
            self.watermark = watermark
        if self.waiting is not None:
            made = self.waiting.complete()
        if self.told is not None:
            made = self.told.tell(self.streams[0], made, rows is not None)
        late = self._late()
        if self.waiting is not None and self.streams[0].ticks is not None:
            if rows is not None:
                made += self.waiting.ahead(self.streams)
            self.waiting.forget(self.streams[0])
        answers = pa.concat_tables([m for m in made if len(m)]) if any(map(len, made)) else None
        self.answers += 0 if answers is None else len(answers)
        return Taken(answers, late)

    def _feed(
        self, stream: Any, watermark: int | None, rows: pa.Table | None
    ) -> Iterator[pa.Table]:
        """The answers of one stream, after each call of it."""
        if rows is not None and stream.frame is None:
            stream.push(rows.slice(0, 0))  # which says what a time is
        if watermark not in (None, self.watermark) and stream.frame is not None:
            yield stream.advance(self._time(watermark))
        if rows is not None:
            yield stream.push(rows)

    @property
    def waits(self) -> bool:
        """Whether time alone may bring answers."""
        if self.waiting is not None:
            return self.waiting.unanswered
        held = self.streams[0].state()
        return bool(held["rows"] or held["partials"])

    @property
    def received(self) -> int:
        """How many rows have come."""
        return int(self.streams[0].received)

    @property
    def late_count(self) -> int:
        """How many of them were late, which they are for all specs alike."""
        return int(self.streams[0].late_count)

    def _numbered(self, table: pa.Table) -> pa.Table:
        if self.waiting is None:
            return table
        numbers = pa.array(np.arange(self.received, self.received + len(table)))
        return table.append_column(NUMBER, numbers)

    def _late(self) -> pa.Table | None:
        of_all = [stream.late() for stream in self.streams]  # so all of them forget these rows
        rows = of_all[0]
        if rows is None or not len(rows):
            return None
        return rows if self.waiting is None else self.waiting.drop_late(rows)

    def _time(self, ms: int) -> Any:
        """A watermark as the time column has it; a day that has begun is over: no row is in it."""
        unit = self.streams[0].ticks.unit
        if unit in ("i", None):
            return ms
        if unit == "d":
            return np.datetime64(-(-ms // MS_OF_DAY), "D")
        return np.datetime64(ms, "ms")


class WaitingRows:
    """Rows of trailing windows that may be answered (again): whole, as they are given back.

    (The stream itself keeps just the columns that its aggregates use.)
    """

    def __init__(self, specs: Sequence[Rolling], eager: bool = False) -> None:
        self.spec = spec = specs[0]
        names = [[name for name, _ in one.aggs] for one in specs]
        self.told = Told([name for mine in names for name in mine]) if eager else None
        self.revises = spec.lateness is not None and spec.lateness.mode == "revise"
        before = [REVISION] if self.revises else []
        self.beside = Beside([[*before, *mine] for mine in names])
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

    def complete(self) -> list[pa.Table]:
        """The rows that all specs have answered, and their final answers beside them; those of
        them that were not told so already."""
        answers = self.beside.complete()
        if answers is None:
            return []
        numbers = answers.column(NUMBER).to_numpy()
        self.answered[self.numbers.searchsorted(numbers)] = True
        if self.told is None:
            return [self._with(answers)]
        new, revisions = self.told.news(numbers, answers)
        self.told.forget(numbers)
        return [self._changed(answers, new, revisions)]

    def ahead(self, streams: Sequence[RollingStream]) -> list[pa.Table]:
        """The rows that wait, with the answers that they would have now; those of them that were
        not told so already. None where rows are told final answers only."""
        if self.told is None:
            return []
        peeked = [(stream.peek(), stream.answered_rows) for stream in streams]
        answers = self.beside.ahead(peeked)
        numbers = answers.column(NUMBER).to_numpy()
        new, revisions = self.told.news(numbers, answers)
        self.told.keep(numbers, revisions, answers)
        return [self._changed(answers, new, revisions)]

    def _changed(self, answers: pa.Table, new: NDArray[np.bool_], revisions: Ints) -> pa.Table:
        counted = answers.add_column(1, REVISION, pa.array(revisions))
        return self._with(counted.filter(pa.array(new)))

    def _with(self, answers: pa.Table) -> pa.Table:
        """The rows that these answers are of, with them."""
        assert self.rows is not None
        made = self.rows.take(pa.array(self.numbers.searchsorted(answers.column(NUMBER))))
        for name in answers.column_names[1:]:
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

    def tables(self) -> list[pa.Table | None]:
        """Everything, for a snapshot."""
        told = None if self.told is None else self.told.table()
        held = self.beside.held if len(self.beside.held) > 1 else []
        if self.rows is None:
            return [None, told, *held]
        marked = self.rows.append_column(NUMBER, pa.array(self.numbers))
        return [marked.append_column(ANSWERED, pa.array(self.answered)), told, *held]

    def fill(self, tables: list[pa.Table | None]) -> None:
        """Take up what `tables` gave."""
        rows, told, *held = tables
        if self.told is not None and told is not None:
            self.told.fill(told)
        if held:
            self.beside.held = held
        if rows is None:
            return
        self.numbers = rows.column(NUMBER).to_numpy()
        self.answered = np.array(rows.column(ANSWERED).to_numpy(zero_copy_only=False), np.bool_)
        self.rows = rows.drop_columns([NUMBER, ANSWERED])

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        if self.rows is None or keep.all():
            return
        self.rows = self.rows.filter(pa.array(keep)).combine_chunks()
        self.numbers, self.answered = self.numbers[keep], self.answered[keep]
