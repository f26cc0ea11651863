"""WHICH ROWS an answer is made of: the specs.

A spec is an immutable description. It computes nothing until it is called with data; it is
hashable, prints as the code that makes it, and travels as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar

from mta.arguments import plain_number
from mta.durations import Duration, parse_duration
from mta.errors import SpecError
from mta.functions import Aggregate, check_names, named
from mta.progress import Late, Watermark
from mta.spec_arguments import (
    amount_of,
    check_choice,
    check_column,
    check_whole,
    key_names,
    length_of,
    plain,
    source_names,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from mta.stores import Store
    from mta.stream import RollingStream

CLOSED = ("right", "left", "both", "neither")
TIES = ("peers", "arrival")
EVERY_BY = ("rank", "arrival")
_JSON_FORMAT = 1


class Spec:
    """Base of all window specs: which rows, for whom (`by`), and what is asked (`aggs`)."""

    kind: ClassVar[str]
    min_periods: int | None = None
    if TYPE_CHECKING:  # every spec is a dataclass with these fields
        __dataclass_fields__: ClassVar[dict[str, Any]]
        on: str | None
        by: tuple[str, ...]
        closed: str
        aggs: tuple[tuple[str, Aggregate], ...]
    _kinds: ClassVar[dict[str, type[Spec]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            Spec._kinds[cls.kind] = cls

    def to_json(self) -> str:
        """The spec as one line of JSON; ``Spec.from_json`` reads it back."""
        return json.dumps({"mta": _JSON_FORMAT, "window": self.kind, **self._to_dict()})

    def identity(self) -> str:
        """What a snapshot says that it is of: as `to_json`, but of functions of the user, which
        can't be written, the names. (What a stream holds are rows, whatever they are put into.)"""
        told = self._to_dict(Aggregate.identity)
        return json.dumps({"mta": _JSON_FORMAT, "window": self.kind, **told})

    @staticmethod
    def from_json(text: str) -> Any:
        """The spec that `text` describes.

        Raises
        ------
        SpecError
            If it is not JSON, not a spec, or a spec of a later format.
        """
        try:
            data = json.loads(text)
        except (TypeError, ValueError) as error:
            raise SpecError(f"spec: not JSON: {error}") from None
        if not isinstance(data, dict) or "mta" not in data:
            raise SpecError("spec: this JSON does not describe a window")
        if data.pop("mta") != _JSON_FORMAT:
            raise SpecError(f"spec: only format {_JSON_FORMAT} is known")
        cls = Spec._kinds.get(str(data.pop("window", None)))
        if cls is None:
            raise SpecError(f"spec: unknown window; known: {', '.join(sorted(Spec._kinds))}")
        return cls._from_dict(data)

    def agg(self, /, *aggs: Aggregate, **by_name: Aggregate) -> Self:
        """The same window with these answers, named by keyword or after column and function.

        Examples
        --------
        >>> import mta
        >>> from mta import agg
        >>> mta.rolling("24h", on="ts", by="card").agg(agg.sum("amount"), n=agg.count())
        mta.rolling('1d', on='ts', by='card').agg(amount_sum=agg.sum('amount'), n=agg.count())
        """
        return replace(self, aggs=named(aggs, by_name))

    def explain(self) -> str:
        """How it will be computed: order, shared states, estimated memory and cost per row.

        Examples
        --------
        >>> import mta
        >>> from mta import agg
        >>> spec = mta.rolling(1000).agg(total=agg.sum("x"), mean=agg.mean("x"))
        >>> print(spec.explain().splitlines()[3])
        state    sum(x) -> total, mean: double-doubles (integers: 128 bits)
        """
        from mta.explain import explain  # it builds on the specs, not they on it

        return explain(self)

    def __repr__(self) -> str:
        given, *options = fields(self)[:-1]
        shown = [repr(plain(getattr(self, given.name)))]
        for option in options:
            value = getattr(self, option.name)
            told = option.name in ("progress", "lateness")  # by calls of their own
            if value != option.default and not told:
                shown.append(f"{option.name}={plain(value)!r}")
        text = f"mta.{self.kind}({', '.join(shown)}){self._calls()}"
        return text + (f".agg({_show_aggs(self.aggs)})" if self.aggs else "")

    @property
    def asked(self) -> tuple[tuple[str, Aggregate], ...]:
        """The aggregates as they are computed."""
        return self.aggs

    def _calls(self) -> str:
        """The calls, if any, between the function that makes it and ``.agg``."""
        return ""

    @property
    def over_rows(self) -> bool:
        """Whether the window is measured in rows."""
        return False

    @property
    def lengths(self) -> list[Duration]:
        """All lengths on the time axis that it names."""
        values = (getattr(self, f.name) for f in fields(self))
        return [value for value in values if isinstance(value, Duration)]

    @property
    def right_closed(self) -> bool:
        """Whether a row at the right edge is inside."""
        return self.closed in ("right", "both")

    @classmethod
    def _make(cls, **arguments: Any) -> Spec:
        """What the public function of this kind makes of its arguments."""
        raise NotImplementedError

    def _to_dict(
        self, told: Callable[[Aggregate], dict[str, Any]] = Aggregate.to_dict
    ) -> dict[str, Any]:
        data = {f.name: plain(getattr(self, f.name)) for f in fields(self)}
        data["aggs"] = [{"name": name, **told(a)} for name, a in self.aggs]
        return data

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Spec:
        data = dict(data)
        aggs = data.pop("aggs", [])
        try:
            window = cls._make(**data)
            pairs = [(a["name"], {k: v for k, v in a.items() if k != "name"}) for a in aggs]
            named_aggs = [(name, Aggregate(**fields)) for name, fields in pairs]
        except (TypeError, KeyError, AttributeError) as error:
            raise SpecError(f"spec: not a {cls.kind} window: {error}") from None
        if not named_aggs:
            return window
        return replace(window, aggs=check_names(named_aggs))


class Streamed(Spec):
    """Base of the specs whose rows may be pushed in any order: how far time has come, and what
    becomes of rows that come later than that."""

    progress: Watermark | None = None
    lateness: Late | None = None

    def watermark(
        self,
        delay: str | Any = 0,
        *,
        idle_after: str | Any = None,
        max_ahead: str | Any = None,
        source: str | None = None,
        sources: Sequence[Any] | None = (),
        combine: str = "min",
        punctuation: str | None = None,
        per: str = "stream",
    ) -> Self:
        """The same windows, whose stream learns from its rows how far time has come.

        Parameters
        ----------
        delay : how long rows may be under way: after a row at t, those before t - delay are late
            None: the rows tell nothing; `op.advance` and `op.finish` do.
        source : name of a column with the rows' sources; each has a watermark of its own
        sources : those that hold the others back from the start, before their first row; without a
            column, they are those that calls name (`op.advance`, `op.merge`)
        combine : "min" (default) over the sources that are not silent; "max"
        idle_after : a source that has sent nothing while time went on by this is silent; without
            `source`, on Spark only: after so long without rows, time goes on as the clock does
        max_ahead : a row further ahead of its source than this is not believed before a second one
        punctuation : name of a column of booleans; a row where it is true is no row, but says that
            none will come before its time, from its source
        per : "stream" (default), or "group" where such a row speaks of its own group only

        Raises
        ------
        SpecError
            The arguments have no meaning together.
        """
        if isinstance(delay, int) and delay == 0:
            delay = Duration(0, bool(self.lengths) and self.lengths[0].ticks)
        lengths = {"delay": delay, "idle_after": idle_after, "max_ahead": max_ahead}
        parsed: dict[str, Any] = {
            n: None if x is None else parse_duration(x, n) for n, x in lengths.items()
        }
        names = source_names(sources)
        told: dict[str, Any] = {"punctuation": punctuation, "per": per}
        made = Watermark(**parsed, source=source, sources=names, combine=combine, **told)
        if made.per == "group" and not self.by:
            raise SpecError("per: 'group' is for specs with keys (by=)")
        return replace(self, progress=made)

    def late(self, mode: str = "drop", *, within: str | Any = None) -> Self:
        """The same windows, with what becomes of rows that come too late: when all windows that
        they belong to have been answered or, of a trailing window, when the watermark has gone
        past them.

        Parameters
        ----------
        mode : "drop": they are counted and kept for `op.late`, and change nothing; "revise": their
            windows are answered again, with the next revision; "error": a DataError, and nothing
            of the push is taken in
        within : how long after its first answer a window may be revised

        Raises
        ------
        SpecError
            The arguments have no meaning together.
        """
        length = None if within is None else parse_duration(within, "within")
        return replace(self, lateness=Late(mode, length))

    @property
    def lengths(self) -> list[Duration]:
        """All lengths on the time axis that it names."""
        more = self.progress.lengths if self.progress is not None else []
        within = self.lateness.within if self.lateness is not None else None
        return [*super().lengths, *more, *([within] if within is not None else [])]

    def _calls(self) -> str:
        text = ""
        for call, given in (("watermark", self.progress), ("late", self.lateness)):
            if given is not None:
                shown = [
                    f"{f.name}={str(v)!r}" if isinstance(v, Duration) else f"{f.name}={v!r}"
                    for f in fields(given)
                    if (v := getattr(given, f.name)) != f.default or f.name in ("delay", "mode")
                ]
                text += f".{call}({', '.join(shown)})"
        return text


@dataclass(frozen=True, repr=False)
class Rolling(Streamed):
    """A trailing window; see `rolling`, which makes it."""

    kind: ClassVar[str] = "rolling"

    range: int | Duration | None
    on: str | None = None
    by: tuple[str, ...] = ()
    closed: str = "right"
    lag: int | Duration | None = None
    ties: str = "peers"
    min_periods: int | None = None
    every: int | None = None
    every_by: str = "rank"
    progress: Watermark | None = None
    lateness: Late | None = None
    aggs: tuple[tuple[str, Aggregate], ...] = ()

    def __post_init__(self) -> None:
        check_column(self.on, "on")
        check_choice(self.closed, "closed", CLOSED)
        check_choice(self.ties, "ties", TIES)
        check_choice(self.every_by, "every_by", EVERY_BY)
        _check_range(self)
        _check_lag(self)
        check_whole(self.min_periods, "min_periods", 0)
        check_whole(self.every, "every", 1)
        _check_progress(self)

    def __call__(
        self,
        data: Any,
        threads: int = 1,
        *,
        memory: int | str | None = None,
        store: Store | str | None = None,
    ) -> Any:
        """The answers for every row of `data`, in its order and its kind.

        With `every`, the answers for every so many rows of a key, with their key and time columns,
        in the order of the rows at which they are given.

        Parameters
        ----------
        data : pandas.DataFrame, polars.DataFrame or LazyFrame, pyarrow.Table or RecordBatch,
            anything with an Arrow stream, or a dict of NumPy arrays of one length
        threads : how many threads may compute answers, each those of a stretch of the rows
            The answers are those of one thread, to the last bit. Sorting stays on one.
        memory : bytes, or text as "128KB": `data` is an iterable of batches, each of them data as
            above, whose rows together may be more than memory holds, and so may be the rows of a
            window; see `stream`. Rows of a key have to come in order of time, or the spec has a
            ``.watermark(delay=)``
        store : as for `stream`

        Returns
        -------
        The same kind, with one column per answer and one row per input row (pandas: same index;
        an Arrow stream gives a pyarrow.Table). A LazyFrame gives one that will read just the
        columns it needs; whether it can is checked at once.
        With `memory`, an iterator of answers, as batches come: all together one per row, in order;
        with `every` or a watermark, with the columns that say which row an answer is of, as they
        become final.

        Raises
        ------
        ColumnError
            A column is missing.
        DataError
            A time is null, or a column has a type that the aggregate can't use. Column, first row
            and number of rows are named, and nothing has been computed.
        OverflowError
            An integer sum does not fit in 64 bits.
        """
        from mta.engine import run_batch  # the engine builds on the specs, not they on it
        from mta.stored_stream import answer_batches

        if memory is not None:
            return answer_batches(self, data, memory, store)
        if store is not None:
            raise SpecError("store: say by memory= how much may stay in memory")
        return run_batch(self, data, threads)

    def stream(
        self,
        state: bytes | None = None,
        *,
        memory: int | str | None = None,
        store: Store | str | None = None,
        name: str = "stream",
        block: int | None = None,
    ) -> RollingStream:
        """The same windows over rows that are pushed: ``op.push(batch)`` gives the answers that
        became final.

        Parameters
        ----------
        state : what ``op.to_bytes()`` gave; the stream goes on from there
        memory : bytes, or text as "128KB": windows are larger than memory (SlideM, 2013). No more
            than this is kept of the rows, the others are on the store: of each key the newest ones
            and those with which its window begins. A partial aggregate a block, and the objects
            of a key, some 15 KB, are part of it; keys that have had no rows for longest give back
            first. Keys with few rows have none of that, but share a pool: some 100 bytes a key, and
            its rows; 50 bytes of those that have had none for long, whose rows are on the store.
            Where keys need more in any case (``op.stats().least``), so much is held. Not in it: the
            distinct texts or bytes in the window, and what a store of files knows of its blocks,
            some 150 bytes each. Quantiles, ``top_k``, ``mode``, ``count_distinct`` and
            ``most_common`` have three quarters of it (8 KB a key at least) for counts by value,
            most of which are on the store too; so have sketches to be merged. Where late rows
            revise, the rows of `within` are in memory too (``op.stats().least``), and no keys share
            a pool. Answers are the same doubles.
        store : where the rows are then, a URL for ``mta.stores.open_store`` or a
            ``mta.stores.Store``; None: in files, gone with the stream. Where it has a stream of
            this name already, that goes on as it was at the last ``op.flush()``, after
            ``op.received`` rows.
        name : of the stream on its store
        block : bytes that are read and written at a time; None: 128 KB, or what `memory` allows

        Raises
        ------
        SnapshotError
            `state`, or what the store has under this name, is damaged, or of another spec.
        SpecError
            There is too little memory; or late rows revise what depends on where windows are cut
            (sketches, monoids of the user, ``numerics="fast"``).

        Examples
        --------
        >>> import numpy as np, mta
        >>> from mta import agg
        >>> op = mta.rolling("10i", on="ts").agg(total=agg.sum("x")).stream()
        >>> op.push({"ts": np.array([1, 2, 2]), "x": np.array([1, 2, 3])})["total"].tolist()
        [1]
        >>> op.push({"ts": np.array([15]), "x": np.array([4])})["total"].tolist()
        [6, 6]
        >>> op.finish()["total"].tolist()
        [4]

        The rows of a month in a hundred kilobytes:

        >>> spec = mta.rolling("30d", on="ts").agg(total=agg.sum("x"))
        >>> with spec.stream(memory="100KB") as op:
        ...     for day in range(60):
        ...         ts = np.datetime64("2026-01-01", "s") + day * 86400 + np.arange(0, 86400, 60)
        ...         answers = op.push({"ts": ts, "x": np.ones(1440)})
        ...     answers["total"][-1], op.stats().memory < 200_000
        (np.float64(43200.0), True)
        """
        from mta.stored_stream import StoredRollingStream
        from mta.stream import RollingStream  # as above
        from mta.stream_state import stream_from_bytes

        if memory is not None:
            if state is not None:
                raise SpecError("state: a stream with memory= goes on from what its store has")
            return StoredRollingStream(self, memory, store, name, block)
        if store is not None:
            raise SpecError("store: say by memory= how much may stay in memory")
        return RollingStream(self) if state is None else stream_from_bytes(self, state)

    @property
    def left_closed(self) -> bool:
        """Whether a row at the left edge is inside."""
        return self.closed in ("left", "both")

    @property
    def over_rows(self) -> bool:
        """Whether the window is measured in rows (or is everything, in order of arrival)."""
        return isinstance(self.range, int) or (self.range is None and self.on is None)

    @property
    def by_rank(self) -> bool:
        """Whether the rows that are answered are told by their order, not by their arrival."""
        return self.every is None or self.every_by == "rank" or self.on is None

    @property
    def asked(self) -> tuple[tuple[str, Aggregate], ...]:
        """Float sums that may be revised are exact, and rounded once: then which windows are
        answered together is nowhere to be seen."""
        revised = self.lateness is not None and self.lateness.mode == "revise"
        return exactly(self.aggs) if revised else self.aggs

    @classmethod
    def _make(cls, **arguments: Any) -> Rolling:
        made: Rolling = made_of(rolling, arguments)
        return made


def rolling(
    range: int | str | Any | None,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    closed: str = "right",
    lag: int | str | Any | None = None,
    ties: str = "peers",
    min_periods: int | None = None,
    every: int | None = None,
    every_by: str = "rank",
) -> Rolling:
    """A trailing window: one answer per row, over the rows before it.

    Parameters
    ----------
    range : how far back the window reaches
        A duration ("24h", "1h30m", a timedelta) over the time column `on`; "5i" for five ticks of
        an integer `on`; an int for that many rows of the same key; None for everything so far.
    on : name of the time column: timestamps of any unit and zone, dates, or integers
        Needed for durations. Rows may come in any order: they are ordered by (`on`, arrival) and
        answered where they stand. Row windows without it take the rows as they come.
    by : name, or names, of the key columns; each key has windows of its own
        Null is a key, and NaN is another.
    closed : which edges belong to the window that ends at time t
        "right" ``(t - range, t]`` (default), "left" ``[t - range, t)``, "both", "neither".
        Of a row window, likewise, over row numbers: "left" are the `range` rows before this one.
    lag : duration (rows for row windows) by which the window is moved back; may be negative
    ties : "peers" (default): rows with the same time are in each other's windows
        "arrival": a row sees those of its own time that came earlier, never a later one; with an
        open right edge it does not see itself. (A lag puts all of them out of reach.)
    min_periods : fewer non-null values than this in the window give null
    every : answer only after every so many rows of a key (slide by tuples)
    every_by : what `every` counts: "rank" (default): rows in order of (`on`, arrival)
        "arrival": rows as they come; the window still is that of the row's time.

    Returns
    -------
    Rolling
        Complete it with ``.agg(...)``, then call it with data.

    Raises
    ------
    SpecError
        The arguments have no meaning together; the message names the one at fault.

    Notes
    -----
    O(1) combines a row whatever the range; memory O(rows). Time windows are found by one pass of
    two pointers over the sorted times.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rides = {"ts": np.array([1, 9, 4, 6]), "fare": np.array([10, 40, 20, 30])}
    >>> spec = mta.rolling("5i", on="ts").agg(total=agg.sum("fare"), n=agg.count())
    >>> {name: answers.tolist() for name, answers in spec(rides).items()}
    {'total': [10, 70, 30, 50], 'n': [1, 2, 2, 2]}
    """
    extent, shift = length_of(range, "range"), length_of(lag, "lag")
    least, step = plain_number(min_periods), plain_number(every)
    return Rolling(extent, on, key_names(by), closed, shift, ties, least, step, every_by)


def exactly(aggs: tuple[tuple[str, Aggregate], ...]) -> tuple[tuple[str, Aggregate], ...]:
    """The same with sums of floats that are rounded once."""

    def one(aggregate: Aggregate) -> Aggregate:
        summed = aggregate.fn in ("sum", "mean") and aggregate.numerics == "compensated"
        return replace(aggregate, numerics="exact") if summed else aggregate

    return tuple((name, one(aggregate)) for name, aggregate in aggs)


def made_of(make: Any, arguments: dict[str, Any]) -> Any:
    """A spec of its JSON: the arguments of its function, and of `watermark` and `late`."""
    progress, lateness = arguments.pop("progress", None), arguments.pop("lateness", None)
    spec = make(**arguments)
    spec = spec if progress is None else spec.watermark(**progress)
    return spec if lateness is None else spec.late(**lateness)


def _check_range(window: Rolling) -> None:
    size = window.range
    if size is None:
        return
    if amount_of(size, "range") <= 0:
        raise SpecError(f"range: must be positive, not {plain(size)!r}")
    if isinstance(size, Duration) and window.on is None:
        raise SpecError(f"on: a window of {plain(size)!r} needs the name of the time column")


def _check_lag(window: Rolling) -> None:
    lag = window.lag
    if lag is None:
        return
    amount = amount_of(lag, "lag")
    if window.over_rows and not isinstance(lag, int):
        raise SpecError(f"lag: a window of rows is moved by rows, not by {plain(lag)!r}")
    if not window.over_rows and isinstance(lag, int):
        raise SpecError(f"lag: a window of time is moved by a duration, not by {lag!r} rows")
    if isinstance(lag, Duration):
        if window.on is None:
            raise SpecError(f"on: a lag of {plain(lag)!r} needs the name of the time column")
        if isinstance(window.range, Duration) and lag.ticks != window.range.ticks:
            raise SpecError("lag: range and lag must both be durations or both be ticks ('5i')")
        if window.ties == "arrival" and amount < 0:
            raise SpecError("ties: 'arrival' keeps later rows out; a negative lag asks for them")


def _check_progress(window: Rolling) -> None:
    if window.every is None and window.every_by != "rank":
        raise SpecError("every_by: says what `every` counts; give both")
    if window.every is not None:
        for name, _ in window.aggs:
            if name in (*window.by, window.on):
                raise SpecError(f"agg: {name!r} is the column that says which row an answer is of")
    if window.progress is None and window.lateness is None:
        return
    if window.on is None:
        call = "watermark" if window.progress is not None else "late"
        raise SpecError(f"{call}: rows without a time column (`on`) are never late")
    if window.progress is not None and window.progress.per == "group":
        raise SpecError("per: a trailing window's rows become final together; say it of the stream")
    lengths = [length for length in window.lengths if length.amount]
    if any(length.ticks != lengths[0].ticks for length in lengths):
        raise SpecError("range, lag and delays must all be times or all be ticks ('5i')")
    revised = window.lateness is not None and window.lateness.mode == "revise"
    if revised and window.every is not None and window.by_rank:
        raise SpecError(
            "late: a row that comes late changes the ranks of those after it, and so which of them "
            "`every` answers; count arrivals (every_by='arrival') or don't revise"
        )


def _show_aggs(aggs: tuple[tuple[str, Aggregate], ...]) -> str:
    if all(name.isidentifier() and not iskeyword(name) for name, _ in aggs):
        return ", ".join(f"{name}={a!r}" for name, a in aggs)
    return "**{" + ", ".join(f"{name!r}: {a!r}" for name, a in aggs) + "}"
