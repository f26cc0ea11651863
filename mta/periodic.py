"""Windows by number (window-id): hopping, tumbling, landmark and calendar specs.

Each answers once per window and group that holds rows, not once per row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from mta.arguments import plain_number
from mta.calendars import Clock, Period, parse_period
from mta.durations import NANOSECONDS, Duration, parse_duration, since_epoch
from mta.errors import SpecError
from mta.functions import Aggregate
from mta.progress import Late, Watermark
from mta.spec_arguments import check_choice, check_column, key_names
from mta.specs import Streamed, exactly, made_of

if TYPE_CHECKING:
    from mta.bucket_stream import BucketStream
    from mta.lowlevel import LowLevelStream
    from mta.stored_buckets import StoredBucketStream
    from mta.stores import Store

SIDES = ("left", "right")
EMPTY = ("skip", "emit")
FIRST = "first"  # an origin: the time of the row that comes first


class Periodic(Streamed):
    """Base of the specs whose windows have numbers."""

    origin: Duration | str | None = None
    empty: str = "skip"

    @property
    def leaves_rows_out(self) -> bool:
        """Whether there are times that no window holds."""
        return False

    @overload
    def stream(
        self, state: bytes | None = None, *, plan: str = "auto", memory: None = None
    ) -> BucketStream: ...

    @overload
    def stream(
        self,
        state: None = None,
        *,
        plan: str = "auto",
        memory: int | str,
        store: Store | str | None = None,
        name: str = "stream",
        block: int | None = None,
    ) -> StoredBucketStream: ...

    def stream(
        self,
        state: bytes | None = None,
        *,
        plan: str = "auto",
        memory: int | str | None = None,
        store: Store | str | None = None,
        name: str = "stream",
        block: int | None = None,
    ) -> BucketStream:
        """The same windows over rows that are pushed: ``op.push(batch)`` gives the answers that
        became final.

        Parameters
        ----------
        state : what ``op.to_bytes()`` gave; the stream goes on from there, with its plan
        plan : what is held of the rows of open windows; the answers are the same

            - "rows": the rows as they are; for every aggregate. A push that completes windows goes
              over all rows that are held.
            - "wid": a partial aggregate per group and window; a row updates range / slide of them.
            - "paned": one per group and pane, of length gcd(range, slide), and one per group for
              the window at hand; a row updates one of them, a window costs the panes that come and
              go.
            - "adapt": as "paned", but of groups with few rows the rows themselves are kept.
            - "auto" (default): the rows, until it is known what they are like; then what costs
              least (``op.explain()`` says why).

            Partial aggregates are there of counts, sums, means, min, max, any and all.

            With `memory`, what is on the store:

            - "2LA": a partial aggregate per group and pane
            - "1W": the rows, once for all aggregates; also for quantiles, `top_k`, distinct and
              frequent values, `list`, `longest_run`, `arg_min` and `arg_max` of one column,
              sketches, monoids of the user and ``numerics="fast"``, for which they are sorted anew
              for every window, at O(window) reads and writes
            - "auto": what takes less space (``op.explain()`` says how much)

            Of texts and bytes the distinct ones in the windows are in memory.

        memory : for windows larger than memory (SlideM, 2013): bytes, or text such as "128KB", for
            blocks of open windows; all others are on the store. The answers are the same doubles.
            Beside the blocks: a partial aggregate per group (two of what nothing can be taken out
            of, from min to slope), and per group and pane that is not complete; with "1W" the rows
            that are newer than the watermark; as much once more for rows that come behind (for
            panes on the store), and where values are sorted. Where late rows revise, 8 bytes for
            each group and block, and 200 for a window and group that was revised; while one is, two
            partials for each window, and a quarter of `memory` (of rows that are sorted one more).
        store : with `memory`: a ``mta.stores.Store``, or a URL such as "file:///folder" for
            ``mta.stores.open_store``; None: files in a temporary folder, removed when the stream is
            closed
        name : with `memory`: of the stream, on its store. If there is one, it goes on from its last
            flush; ``op.received`` says how many rows it has taken in, and those after them have to
            be pushed again.
        block : with `memory`: bytes that are read and written at a time; None: 64 KB, or what
            `memory` has room for two of (one more where there are extremes, one for var to slope,
            products, `first`, `last`, `arg_min` and `arg_max`, and one where late rows revise)

        Returns
        -------
        BucketStream
            With `memory` a ``StoredBucketStream``, which also has ``flush()``, ``stats()``,
            ``retry()`` and ``close()``, and is a context manager.

        Raises
        ------
        SnapshotError
            `state`, or what is on the store, is damaged, or of another spec.
        SpecError
            The plan does not serve these aggregates, or windows; or these can't be kept on a store.
        StoreError
            The store can't be read.

        Notes
        -----
        The plans are those of the thesis on window-ids, 6.1 (WID), 6.2 (Paned-WID) and 6.3
        (AdaptWID); the choice is by its Eq. 6.1 to 6.6. With `memory` they are those of SlideM
        (2013), 1W and 2LA, chosen by its formulas 2.1 and 2.2; a block is written once and read
        once (formula 3.1). Extremes, var and the like can't be taken out of a total: once in a
        window's length all panes inside are read once more, by one push, and about as much is
        written.

        Examples
        --------
        >>> import numpy as np, mta
        >>> from mta import agg
        >>> spec = mta.tumbling("10i", on="ts").watermark(delay="5i").agg(total=agg.sum("x"))
        >>> op = spec.stream()
        >>> op.push({"ts": np.array([1, 12, 9]), "x": np.array([1, 2, 4])})["total"].tolist()
        []
        >>> op.push({"ts": np.array([15]), "x": np.array([8])})["total"].tolist()
        [5]
        >>> op.finish()["total"].tolist()
        [10]

        A day by ten seconds in two blocks of memory:

        >>> spec = mta.hopping("24h", slide="10s", on="ts").watermark("1m").agg(n=agg.count())
        >>> with spec.stream(memory="4KB", store="memory:", plan="1W") as op:
        ...     for hour in range(48):
        ...         ts = np.datetime64("2026-01-01", "s") + hour * 3600 + np.arange(0, 3600, 9)
        ...         answers = op.push({"ts": ts})
        ...     int(answers["n"][-1]), op.stats().stored > 40, op.stats().memory < 50_000
        (9600, True, True)
        """
        from mta.bucket_state import stream_from_bytes  # as above
        from mta.bucket_stream import BucketStream

        if memory is not None:
            from mta.stored_buckets import open_stored

            if state is not None:
                raise SpecError(
                    "state: with memory= it is on the store; name it by store= and name="
                )
            return open_stored(self, plan, memory, store, name, block)
        if store is not None:
            raise SpecError("store: say by memory= how much of the windows is to be in memory")
        return BucketStream(self, plan) if state is None else stream_from_bytes(self, state)

    def low_level(
        self,
        state: bytes | None = None,
        *,
        size: int = 4096,
        flush: str = "lazy",
        within: int = 2,
        every: int = 16,
        sources: Sequence[Any] | None = None,
    ) -> LowLevelStream:
        """A stage in front of the windows that turns rows into partial aggregates, in a table that
        never grows: ``low.push(batch)`` gives those that went out, ``op.merge`` takes them.

        Parameters
        ----------
        state : what ``low.to_bytes()`` gave; the stage goes on from there, with its options
        size : slots of the table, each for a group in a pane of length gcd(range, slide); with more
            of them at a time, partial aggregates go out early, and in several pieces
        flush : how the partial aggregates of windows that are complete go out

            - "lazy" (default): when another group needs their slot
            - "slow": one with every so many rows as well

        within : by how many windows they may be late, at most (2); 0: they go out at once
        every : rows between two of "slow" flush (16)
        sources : those of ``.watermark(sources=)`` whose rows come here; None: all

        Returns
        -------
        LowLevelStream
            Its calls are those of a stream, and give a ``PartialBatch`` each. Rows that are late by
            its own watermark are counted and kept (``low.late()``).

        Raises
        ------
        SnapshotError
            `state` is damaged, or of another spec.
        SpecError
            The aggregates have no partials (those of counts, sums, means, min, max, any and all
            have); late rows revise; or an argument has no meaning.

        Notes
        -----
        A row costs O(1) and allocates nothing but for what goes out; a push in which a window ends
        goes over all slots. Memory: the table, ``size`` times 8 bytes and those of a partial
        aggregate (16 for a count, 40 for a sum and its count), and the keys of at most 8 size
        groups. Answers do not depend on `size`, `flush`, `within` and `every`, only when they are
        given. Thesis on window-ids, 8.3.3 and Figure 8-6 (where m is `within`, and i is `every`).

        Examples
        --------
        >>> import numpy as np, mta
        >>> from mta import agg
        >>> spec = mta.tumbling("10i", on="ts", by="ip").watermark("5i").agg(n=agg.count())
        >>> low, op = spec.low_level(size=1024, within=0), spec.stream()
        >>> rows = {"ts": np.array([1, 2, 3, 15]), "ip": np.array([7, 9, 7, 9])}
        >>> batch = low.push(rows)
        >>> batch
        PartialBatch(2 partial aggregates of 3 rows, 2 groups, watermark 10)
        >>> answers = op.merge(batch)
        >>> dict(zip(answers["ip"].tolist(), answers["n"].tolist()))
        {7: 2, 9: 1}
        >>> op.merge(low.finish())["n"].tolist()
        [1]
        """
        from mta.lowlevel import LowLevelStream  # as above
        from mta.lowlevel_state import stage_from_bytes

        if state is not None:
            return stage_from_bytes(self, state)
        return LowLevelStream(self, size, flush, within, every, sources)

    @property
    def asked(self) -> tuple[tuple[str, Aggregate], ...]:
        """Float sums are exact, and rounded once: in which order rows come, and which windows are
        answered together, then is nowhere to be seen."""
        return exactly(self.aggs)

    def __call__(self, data: Any, threads: int = 1, *, memory: int | str | None = None) -> Any:
        """The answers of every window and group that holds rows.

        Parameters
        ----------
        data, threads : as those of ``Rolling``
        memory : bytes, or text as "128KB": `data` is an iterable of batches, whose rows together,
            and those of a window, may be more than memory holds; see `stream`. They have to come in
            order of time, or the spec has a ``.watermark(delay=)``

        Returns
        -------
        The same kind: the columns of `by`, then "start" and "end" of the window in the type of
        `on`, then the answers. Groups come in the order of their first rows, each with its windows
        in order of time.
        With `memory`, an iterator of answers as `stream` gives them, in order of the windows' ends.

        Raises
        ------
        As ``Rolling``, and
        SpecError
            An answer or a key is called "start" or "end".
        DataError
            The edge of a window is beyond what the type of `on` can hold.
        """
        from mta.buckets import run_periodic  # it builds on the specs, not they on it
        from mta.stored_buckets import answer_batches

        if memory is not None:
            return answer_batches(self, data, memory)
        return run_periodic(self, data, threads)


@dataclass(frozen=True, repr=False)
class Hopping(Periodic):
    """Windows of one length at even distances; see `hopping`, which makes it."""

    kind: ClassVar[str] = "hopping"

    range: Duration
    slide: Duration | None = None  # None: the range
    on: str | None = None
    by: tuple[str, ...] = ()
    origin: Duration | str | None = None
    closed: str = "left"
    empty: str = "skip"
    progress: Watermark | None = None
    lateness: Late | None = None
    aggs: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        _check(self, {"range": self.range, "slide": self.slide or self.range})

    @property
    def leaves_rows_out(self) -> bool:
        """Whether there are times that no window holds."""
        return self.slide is not None and self.slide.amount > self.range.amount

    @classmethod
    def _make(cls, **arguments: Any) -> Hopping:
        made: Hopping = made_of(hopping, arguments)
        return made


@dataclass(frozen=True, repr=False)
class Landmark(Periodic):
    """Everything so far, at even distances; see `landmark`, which makes it."""

    kind: ClassVar[str] = "landmark"

    slide: Duration
    on: str | None = None
    by: tuple[str, ...] = ()
    origin: Duration | str | None = None
    closed: str = "left"
    progress: Watermark | None = None
    lateness: Late | None = None
    aggs: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        _check(self, {"slide": self.slide})

    @property
    def leaves_rows_out(self) -> bool:
        """Whether there are times that no window holds: those before a landmark."""
        return self.origin is not None

    @classmethod
    def _make(cls, **arguments: Any) -> Landmark:
        made: Landmark = made_of(landmark, arguments)
        return made


@dataclass(frozen=True, repr=False)
class Calendar(Periodic):
    """Days, weeks, months of a time zone; see `calendar`, which makes it."""

    kind: ClassVar[str] = "calendar"

    period: Period
    on: str | None = None
    by: tuple[str, ...] = ()
    tz: str | None = None
    at: Duration | None = None
    closed: str = "left"
    empty: str = "skip"
    progress: Watermark | None = None
    lateness: Late | None = None
    aggs: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        _check(self, {})
        if self.tz is not None:
            try:
                ZoneInfo(self.tz)
            except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
                raise SpecError(f"tz: {self.tz!r} is not the name of a time zone") from None
        day = 24 * NANOSECONDS["h"]
        if self.at is not None and (self.at.ticks or not -day < self.at.amount < day):
            raise SpecError(f"at: must be less than a day from midnight, not {self.at}")

    def clock(self, unit: str) -> Clock:
        """Where its periods begin, in ticks of this unit, in which `at` is whole."""
        at = 0 if self.at is None else self.at.in_unit(unit)
        assert at is not None
        return Clock(self.period, self.tz, at, NANOSECONDS["s"] // NANOSECONDS[unit])

    @classmethod
    def _make(cls, **arguments: Any) -> Calendar:
        made: Calendar = made_of(calendar, arguments)
        return made


def _check(spec: Periodic, positive: dict[str, Duration]) -> None:
    check_column(spec.on, "on")
    if spec.on is None:
        raise SpecError("on: the name of the time column is needed")
    check_choice(spec.closed, "closed", SIDES)
    check_choice(spec.empty, "empty", EMPTY)
    for argument, length in positive.items():
        if not 0 < length.amount < 2**63:
            raise SpecError(f"{argument}: must be positive and fit in 64 bits, not {length}")
    lengths = spec.lengths
    if any(length.ticks != lengths[0].ticks for length in lengths):
        raise SpecError("range, slide, origin and delays must all be times or all be ticks ('5i')")


def hopping(
    range: str | Any,
    slide: str | Any = None,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    origin: Any = None,
    closed: str = "left",
    empty: str = "skip",
) -> Hopping:
    """Windows ``[origin + k slide, origin + k slide + range)`` for every whole k, also negative.

    Parameters
    ----------
    range : length of every window: "24h", a timedelta, or "5i" for ticks of an integer `on`
    slide : distance between the starts of two windows; None: the range (tumbling)
        Where it is less than the range a row is in several windows, where it is more perhaps in
        none.
    on : name of the time column, as in ``rolling``; rows may come in any order
    by : name, or names, of the key columns; each group has windows of its own
    origin : where one window starts: a time (datetime, numpy.datetime64, pandas.Timestamp), an
        integer of an integer `on`, a length after the epoch ("-8h"), or "first" for the time of the
        row that comes first; None: the epoch, 1970-01-01 in UTC
    closed : "left" (default): the start is inside and the end is not; "right": the reverse
    empty : "skip" (default), or "emit" for the empty windows between the first and the last of a
        group, too

    Returns
    -------
    Hopping
        Complete it with ``.agg(...)``, then call it with data.

    Raises
    ------
    SpecError
        The arguments have no meaning together; the message names the one at fault.

    Notes
    -----
    The cost of an answer does not depend on range / slide: the windows of a group are intervals of
    its sorted rows, both of whose edges only move forward. Thesis on window-ids, chapter 4.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"ts": np.array([0, 3, -1]), "x": np.array([10, 100, 1])}
    >>> sums = mta.hopping("10i", slide="4i", on="ts").agg(total=agg.sum("x"))
    >>> {name: column.tolist() for name, column in sums(rows).items()}
    {'start': [-8, -4, 0], 'end': [2, 6, 10], 'total': [11, 111, 110]}
    """
    extent = parse_duration(range, "range")
    step = None if slide is None else parse_duration(slide, "slide")
    return Hopping(extent, step, on, key_names(by), _origin(origin), closed, empty)


def tumbling(
    range: str | Any,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    origin: Any = None,
    closed: str = "left",
    empty: str = "skip",
) -> Hopping:
    """Windows that follow each other without a gap: ``hopping`` with slide = range.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"ts": np.array([1, 12, 4]), "x": np.array([1, 4, 2])}
    >>> mta.tumbling("10i", on="ts").agg(n=agg.count())(rows)["n"].tolist()
    [2, 1]
    """
    return hopping(range, None, on, by, origin, closed, empty)


def landmark(
    slide: str | Any,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    origin: Any = None,
    closed: str = "left",
) -> Landmark:
    """Everything since the landmark, at every slide: windows ``[origin, origin + k slide)``.

    Parameters
    ----------
    slide, on, by, closed : as in `hopping`
    origin : the landmark, as in `hopping`; rows before it are in no window
        None: windows have no start ("start" is null) and end at whole slides since the epoch.

    Returns
    -------
    Landmark
        A group is answered from its first window on to the last one of all groups.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"ts": np.array([1, 12, 25]), "x": np.array([1, 2, 4])}
    >>> mta.landmark("10i", on="ts", origin=0).agg(total=agg.sum("x"))(rows)["total"].tolist()
    [1, 3, 7]
    """
    return Landmark(parse_duration(slide, "slide"), on, key_names(by), _origin(origin), closed)


def calendar(
    period: str,
    at: str | Any = None,
    tz: str | None = None,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    closed: str = "left",
    empty: str = "skip",
) -> Calendar:
    """Days, weeks, months, quarters or years as the clocks of a time zone show them.

    A day that the clocks go forward has 23 hours, one that they go back has 25.

    Parameters
    ----------
    period : "1 day", "2 weeks", "1 month", "1 quarter", "1 year"; weeks begin on Monday
        Several are counted from 1970 on (weeks from Monday, 5 January).
    at : length after local midnight at which a period begins ("6h")
        A time of day that the clocks leave out is read with the offset before the gap; of one that
        they show twice, the first is meant (Python's ``fold=0``).
    tz : name of the time zone ("Europe/Paris"); None: UTC
    on : name of the time column: timestamps, or dates
        Without a zone of their own, they are read as UTC.
    by, closed, empty : as in `hopping`

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> ts = np.array(["2023-03-25T22:00", "2023-03-26T21:59", "2023-03-26T22:00"], "M8[s]")
    >>> days = mta.calendar("1 day", tz="Europe/Paris", on="ts").agg(n=agg.count())({"ts": ts})
    >>> (days["end"] - days["start"]).astype("m8[h]").tolist()[1]
    datetime.timedelta(seconds=82800)
    """
    shift = None if at is None else parse_duration(at, "at")
    return Calendar(parse_period(period), on, key_names(by), tz, shift, closed, empty)


def _origin(value: Any) -> Duration | str | None:
    """An origin as a length after the epoch."""
    value = plain_number(value)
    if value is None:
        return None
    if isinstance(value, str):
        return FIRST if value == FIRST else parse_duration(value, "origin")
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration(value, ticks=True)
    if not isinstance(value, (dt.date, np.datetime64)):
        return parse_duration(value, "origin")
    since = since_epoch(value)
    if since is None:
        raise SpecError(f"origin: {value!r} is not a time")
    return Duration(since)
