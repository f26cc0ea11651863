"""Several trailing specs over one stream, whose rows are kept once: SSM (SlideM, 2013, §4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import reduce
from typing import Any

import numpy as np

from mta.engine import Ints
from mta.errors import DataError, SpecError
from mta.key_state import Made
from mta.keyed import Paged
from mta.paged import Counters
from mta.paged_kernels import check_spillable
from mta.plan import Parts, Plan, make_plan
from mta.push import NO_ROWS
from mta.shared_rows import CarryingTrack, FollowingTrack
from mta.specs import Rolling
from mta.spill import SpillStats
from mta.stored_stream import OnStore
from mta.stores import Store
from mta.stream import RollingStream
from mta.track import Track


def together(*specs: Rolling) -> Together:
    """Several trailing specs over one stream, which share the rows of their windows.

    Parameters
    ----------
    specs : with the same `on`, `by`, watermark and lateness; ranges and aggregates may be any that
        can be larger than memory (see ``Rolling.stream``)

    Raises
    ------
    SpecError
        They have not that in common, or one of them is no trailing spec.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> hour = mta.rolling("1h", on="at").agg(n=agg.count())
    >>> day = mta.rolling("24h", on="at").agg(worst=agg.max("ms"), n=agg.count())
    >>> at = np.datetime64("2026-01-01T00", "s") + 600 * np.arange(10)
    >>> with mta.together(hour, day).stream(memory="128KB") as op:
    ...     _ = op.push({"at": at, "ms": np.arange(10)})
    ...     last_hour, last_day = op.finish()
    >>> last_hour["n"].tolist(), last_day["n"].tolist(), last_day["worst"].tolist()
    ([6], [10], [9])
    """
    return Together(specs)


class Together:
    """See `together`, which makes it."""

    def __init__(self, specs: tuple[Rolling, ...]) -> None:
        if not specs:
            raise SpecError("together: give it specs")
        for spec in specs:
            if not isinstance(spec, Rolling):
                raise SpecError(f"together: {spec!r} is no trailing spec")
            for name in ("on", "by", "progress", "lateness"):
                if getattr(spec, name) != getattr(specs[0], name):
                    told = "watermark" if name == "progress" else name
                    raise SpecError(f"together: specs have to have the same {told}")
        self.specs = specs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Together) and self.specs == other.specs

    def __hash__(self) -> int:
        return hash(self.specs)

    def __repr__(self) -> str:
        return f"mta.together({', '.join(map(repr, self.specs))})"

    def stream(
        self,
        *,
        memory: int | str,
        store: Store | str | None = None,
        name: str = "stream",
        block: int | None = None,
    ) -> TogetherStream:
        """The windows of all specs over rows that are pushed; arguments as those of
        ``Rolling.stream``.

        Raises
        ------
        SpecError, SnapshotError
            As there.
        """
        return TogetherStream(self.specs, memory, store, name, block)


class CarryingStream(RollingStream):
    """Brings rows to the store, and answers nothing."""

    def _assemble(self, made: list[Made]) -> Any:
        self.answered_rows = NO_ROWS

    def track(self, number: int) -> CarryingTrack:
        """The track of a key, which may not have had its rows yet where they wait for time."""
        assert self.keyed is not None
        track = self.keyed.state_of(number).track
        assert isinstance(track, CarryingTrack)
        nothing = self._nothing()
        if nothing is not None:
            track.begin(nothing)
        return track


class TogetherStream(OnStore):
    """Pushes rows through several specs; every call gives a list of answers, one for each.

    A call that fails leaves all of them as they were. Without a watermark rows have to come in
    order: one that is late for any of the specs is an error.
    """

    kind = "streams on a store"

    def __init__(
        self, specs: tuple[Rolling, ...], memory: int | str, store: Store | str | None, name: str,
        block: int | None,
    ) -> None:  # fmt: skip
        parts = Parts()
        plans = [make_plan(spec.asked, spec.min_periods or 0, parts) for spec in specs]
        for spec, plan in zip(specs, plans, strict=True):
            check_spillable(spec, plan)
            if spec.lateness is not None and spec.lateness.mode == "revise":
                raise SpecError("together: late rows that revise are for streams of one spec")
        # The times of rows are kept where any of the windows is over time.
        timed = next((spec for spec in specs if not spec.over_rows), specs[0])
        union = Plan(tuple(output for plan in plans for output in plan.outputs))
        self.carrier = CarryingStream(timed, union)
        self.carrier.coders.log_sketches()
        self.ops = [RollingStream(*pair) for pair in zip(specs, plans, strict=True)]
        self.carrier.paged = self._carry
        for window, op in enumerate(self.ops):
            op.paged = self._follower(op, window)
        for stream in self._streams:
            stream.holds = True
        for op in self.ops:
            op.coders.share(self.carrier.coders)
        self._begin(memory, store, name, block, plans)

    def _share_memory(self) -> None:
        """All keys have tracks, which share their rows."""

    @property
    def _streams(self) -> list[RollingStream]:
        return [self.carrier, *self.ops]

    def _identity(self) -> str:
        return " ".join(op.spec.identity() for op in self.ops)

    def _carry(self, number: int, serial: int, kept: range) -> Track:
        carrier = self.carrier
        assert carrier.ticks is not None
        make = self.spill.maker(serial, keys_of(carrier), len(self.ops))
        logs = self.spill.logs_of(serial, keys_of(carrier), len(self.ops))
        spec, plan = carrier.spec, carrier.plan
        return CarryingTrack(
            spec, plan, carrier.ticks, make, self.spill.leave, logs, Counters(), self.spill.budget
        )

    def _follower(self, op: RollingStream, window: int) -> Paged:
        counters = Counters()

        def make(number: int, serial: int, kept: range) -> Track:
            assert op.ticks is not None
            logs = self.spill.logs_of(serial, keys_of(op), window)
            carried = self.carrier.track(number)
            budget = self.spill.budget
            return FollowingTrack(
                op.spec, op.plan, op.ticks, carried, window, logs, counters, budget
            )

        return make

    # ----------------------------------------------------------------------- the calls

    def push(self, data: Any) -> list[Any]:
        """Take rows; of each spec, the answers that became final.

        Raises
        ------
        DataError, ColumnError, OverflowError, StoreError
            As that of one stream; and rows are out of order. Nothing has been taken in.
        """
        self._prepare()
        return self._attempt(lambda stream: stream.push(data))

    def advance(self, to: Any, source: Hashable = None) -> list[Any]:
        """Say that no row before this time will come: of each spec, what is final by that."""
        return self._attempt(lambda stream: stream.advance(to, source))

    def finish(self) -> list[Any]:
        """No more rows: of each spec, all answers that were still waiting."""
        return self._attempt(lambda stream: stream.finish())

    def late(self) -> Any:
        """The rows that came too late, as they were pushed, and forget them."""
        for op in self.ops:
            op.late()
        return self.carrier.late()

    @property
    def received(self) -> int:
        """How many rows have been taken in, ever."""
        return self.carrier.received

    def state(self) -> list[dict[str, Any]]:
        """Of each spec, what its stream holds."""
        return [op.state() for op in self.ops]

    def stats(self) -> SpillStats:
        """Blocks written and read, and what is on the store and in memory; ``expected`` is as if
        each block were read for every window (formula 4.1 with a hit rate of 0)."""
        return super().stats()

    def _attempt(self, call: Callable[[RollingStream], Any]) -> list[Any]:
        before = [stream._mark() for stream in self._streams]
        try:
            _, *answers = [call(stream) for stream in self._streams]
            self._check_order()
        except Exception:
            for stream, mark in zip(self._streams, before, strict=True):
                stream._go_back(mark)
            raise
        for stream in self._streams:
            stream.settle()
        self._forget_dead_keys()
        return answers

    def _check_order(self) -> None:
        if self.carrier.progress is None and any(op.late_count for op in self._streams):
            raise DataError(
                "push: rows come after rows of their key with a later time; sort them, or say by "
                ".watermark(delay=) how late they may be"
            )

    def _forget_dead_keys(self) -> None:
        keyed = self.carrier.keyed
        if keyed is None or len(keyed.groups) < self.carrier.sweep_at:
            return
        alive = [op.alive_keys() for op in self.ops]
        known = [keys for keys in alive if keys is not None]
        if len(known) == len(alive):
            all_alive: Ints = reduce(np.union1d, known)
            for stream in self._streams:
                stream.keep_keys(all_alive)


def keys_of(stream: RollingStream) -> int | None:
    """How many keys are known; None: there is one, and no other."""
    return len(stream.keyed.groups) if stream.spec.by and stream.keyed is not None else None
