"""Window slide policies: when the oldest rows go.

A policy is ``policy(total, old) -> bool``: `total` holds the answers over the whole window, `old`
those over its oldest rows, by name (``total.n``, ``old.n``). True means that those rows go. It has
to be monotone: if a prefix goes, so does every shorter one. The longest prefix that goes is then
found in O(log n) calls (MTA 2018, §3.3).

Those of the paper are ready-made: `last`, `since_max`, `since_min`, `since_longest_run`, `at_most`.
They run in compiled code; a function does so over arrays, with numba (`policy`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from mta.arguments import plain_number
from mta.durations import Duration, parse_duration
from mta.errors import SpecError
from mta.functions import Aggregate


class Ready:
    """A ready-made policy: equal to, and named after, the call that makes it."""


@dataclass(frozen=True)
class Last(Ready):
    """Keep the last rows, or the rows of the last stretch of time. Made by `last`."""

    range: int | Duration
    on: str = "ts"

    def __repr__(self) -> str:
        if isinstance(self.range, int):
            return f"mta.last({self.range})"
        on = "" if self.on == "ts" else f", on={self.on!r}"
        return f"mta.last({str(self.range)!r}{on})"


@dataclass(frozen=True)
class OfAnswer(Ready):
    """A ready-made policy over one answer of the window.

    name : of the answer; None where the window has one, which is bare
    """

    name: str | None
    fn: ClassVar[str]  # the aggregate whose answer it has to be

    def place(self, pairs: tuple[tuple[str, Aggregate], ...], bare: bool) -> int:
        """Which of the named aggregates it is over.

        Raises
        ------
        SpecError
            There is none of that name, or it is of another kind.
        """
        if self.name is None and not bare:
            raise SpecError(f"policy: {self!r} has to name an answer; there are {_listed(pairs)}")
        names = [name for name, _ in pairs]
        if self.name is not None and self.name not in names:
            raise SpecError(f"policy: {self!r}: no answer of that name; there are {_listed(pairs)}")
        place = 0 if self.name is None else names.index(self.name)
        aggregate = pairs[place][1]
        if aggregate.fn != self.fn:
            raise SpecError(f"policy: {self!r} is over agg.{self.fn}, not over {aggregate!r}")
        if aggregate.numerics != "compensated":
            raise SpecError(f"policy: {self!r} needs numerics='compensated', not {aggregate!r}")
        return place

    def _answer(self, answers: Any) -> Any:
        return answers if self.name is None else getattr(answers, self.name)


@dataclass(frozen=True, repr=False)
class SinceExtreme(OfAnswer):
    """No older than the greatest or the least value. Made by `since_max` and `since_min`."""

    fn: str = "max"  # type: ignore[misc]  # a field here

    def __repr__(self) -> str:
        return f"mta.since_{self.fn}({'' if self.name is None else repr(self.name)})"

    def __call__(self, total: Any, old: Any) -> bool:
        """Whether the oldest rows go: they do not hold the extreme."""
        most, theirs = self._answer(total), self._answer(old)
        if most is None or theirs is None:
            return most is not None
        return bool(theirs != most and (theirs == theirs or most == most))


@dataclass(frozen=True, repr=False)
class SinceLongestRun(OfAnswer):
    """No older than the longest run. Made by `since_longest_run`."""

    fn: ClassVar[str] = "longest_run"

    def __repr__(self) -> str:
        return f"mta.since_longest_run({'' if self.name is None else repr(self.name)})"


@dataclass(frozen=True, repr=False)
class AtMost(OfAnswer):
    """The longest suffix whose sum is at most `total`. Made by `at_most`."""

    total: int | float
    fn: ClassVar[str] = "sum"

    def __repr__(self) -> str:
        return f"mta.at_most({self.total!r}{'' if self.name is None else f', {self.name!r}'})"


@dataclass(frozen=True, eq=False)
class PolicyProgram:
    """A function as a policy over answers of given types.

    why_python : why it is not compiled; "" where it is
    judge : the compiled function; it has to be kept while its address is used
    """

    why_python: str = ""
    judge: Any = None


@dataclass(frozen=True, eq=False)
class UserPolicy:
    """A function as policy, and whether it is compiled. Made by `policy`."""

    function: Callable[[Any, Any], Any]
    _programs: dict[Any, PolicyProgram] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"mta.policy({getattr(self.function, '__name__', None) or repr(self.function)})"

    def __call__(self, total: Any, old: Any) -> Any:
        """What the function says."""
        return self.function(total, old)

    def __reduce__(self) -> tuple[Any, ...]:
        # What was compiled is an address in this process.
        return policy, (self.function,)

    @property
    def compiled(self) -> bool | None:
        """Whether no Python runs, over every type of answers so far. None: not used yet."""
        programs = self._programs.values()
        return not any(p.why_python for p in programs) if programs else None

    @property
    def why_python(self) -> str:
        """Why it is not compiled; "" where it is, or is not used yet."""
        return next((p.why_python for p in self._programs.values() if p.why_python), "")

    def program(self, answers: type | None, kinds: tuple[str, ...]) -> PolicyProgram:
        """How it runs over answers of these types ("float", "int", "bool"), once.

        answers : the class of named tuples that they come in; None: one, bare
        """
        key = answers and answers._fields, kinds  # type: ignore[attr-defined]
        if key not in self._programs:
            self._programs[key] = _make_program(self.function, answers, kinds)
        return self._programs[key]


def last(range: int | str | Any, on: str = "ts") -> Last:
    """The policy of a trailing window.

    Parameters
    ----------
    range : int for that many rows; a duration ("1h", a timedelta) for the rows of the last hour,
        ``(t - range, t]``; "5i" for five ticks of integer times
    on : name of the time in pushed rows

    Raises
    ------
    SpecError
        If the range is not positive.

    Examples
    --------
    >>> import mta
    >>> mta.last("90m"), mta.last(1024)
    (mta.last('90m'), mta.last(1024))
    """
    range = plain_number(range)
    if isinstance(range, bool) or not isinstance(range, int):
        range = parse_duration(range, "range")
    amount = range if isinstance(range, int) else range.amount
    if not 0 < amount < 2**63:
        raise SpecError(f"range: must be positive and fit in 64 bits, not {range!s}")
    if not isinstance(on, str):
        raise SpecError(f"on: must be the name of the time, not {on!r}")
    made: Last = _last(range, on)
    return made


def since_max(name: str | None = None) -> SinceExtreme:
    """No older than the maximum: the rows before the first one that holds it go (MTA 2018, §5.6).

    Parameters
    ----------
    name : of an ``agg.max`` of the window; left out where that is its only answer

    Of equal maxima the oldest stays, and 0.0 equals -0.0. A NaN counts as the aggregate counts it:
    as the greatest value, or not at all (``nan="skip"``). Nulls before the maximum go; where all
    are null, nothing does.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> w = mta.Window({"n": agg.count(), "top": agg.max("x")}, mta.since_max("top"))
    >>> [tuple(w.push(x=x)) for x in (3, 1, 4, 1, 5)]
    [(1, 3), (2, 3), (1, 4), (2, 4), (1, 5)]
    """
    made: SinceExtreme = _since_extreme(_checked(name), "max")
    return made


def since_min(name: str | None = None) -> SinceExtreme:
    """No older than the minimum: as `since_max`, over an ``agg.min``.

    A NaN that propagates is the minimum; one that is "greatest" is one only among NaN.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> w = mta.Window(agg.min("x"), mta.since_min())
    >>> [(w.push(x), len(w)) for x in (3, 4, 2, 5, 2)]
    [(3, 1), (3, 2), (2, 1), (2, 2), (2, 3)]
    """
    made: SinceExtreme = _since_extreme(_checked(name), "min")
    return made


def since_longest_run(name: str | None = None) -> SinceLongestRun:
    """No older than the longest run of increasing values: the rows before the first of it go.

    Parameters
    ----------
    name : of an ``agg.longest_run`` of the window; left out where that is its only answer

    Of runs of equal length the oldest stays. A run is what the aggregate takes for one: nulls are
    no break in it, a NaN is a run of its own. Where all are null, nothing goes. The paper's policy
    for LIS (MTA 2018, §5.6), which drops what holds no part of the run.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> aggs = {"n": agg.count(), "run": agg.longest_run("x")}
    >>> w = mta.Window(aggs, mta.since_longest_run("run"))
    >>> [tuple(w.push(x=x)) for x in (5, 1, 2, 0, 4, 6)]
    [(1, 1), (2, 1), (2, 2), (3, 2), (4, 2), (3, 3)]
    """
    made: SinceLongestRun = _since_longest_run(_checked(name))
    return made


def at_most(total: int | float, name: str | None = None) -> AtMost:
    """The longest suffix whose sum is at most `total`: the oldest rows go until it is.

    Parameters
    ----------
    total : not negative
    name : of an ``agg.sum`` of the window; left out where that is its only answer

    A sum that equals `total` stays. The sum is that of the rows that stay, as the window answers
    it: so a NaN or an infinity goes, with all before it. Nulls weigh nothing; those at the front
    stay. The values must not be negative, or a shorter suffix may stay than the longest one.

    Raises
    ------
    SpecError
        If the total is negative, no number, or does not fit in 64 bits.

    Examples
    --------
    The running example of the MTA paper (2018, §2):

    >>> import mta
    >>> from mta import agg
    >>> w = mta.Window({"total": agg.sum("x"), "top": agg.max("x")}, mta.at_most(10, "total"))
    >>> [tuple(w.push(x=x)) for x in (2, 2, 3, 3, 4)]
    [(2, 2), (4, 2), (7, 3), (10, 3), (10, 4)]
    """
    given: Any = plain_number(total)
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not number or not 0 <= given < 2**63:
        raise SpecError(f"total: must be a number from 0 to 2**63, not {total!r}")
    made: AtMost = _at_most(_checked(name), given)
    return made


def policy(function: Callable[[Any, Any], Any]) -> UserPolicy:
    """A function as policy, that tells whether it is compiled.

    A window takes the function itself just as well; it then uses what this gives for it. Over
    arrays, with numba installed, and if all answers are numbers, the function is compiled at its
    first use, in about a second. A global that it reads is frozen then. Where it can't be compiled,
    and for a row where an answer is null, an integer beyond 2**53, or where it raises, Python runs.
    Compiled integers have 64 bits, and ``math.sqrt(-1.0)`` is NaN.

    Raises
    ------
    SpecError
        It is no function.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> rows = mta.policy(lambda total, old: total.n - old.n >= 3)
    >>> w = mta.Window({"n": agg.count()}, rows)
    >>> [w.push({}).n for _ in range(5)], rows.compiled, rows.why_python
    ([1, 2, 3, 3, 3], None, '')
    """
    if isinstance(function, UserPolicy):
        return function
    given: Any = function
    if isinstance(given, Ready) or not callable(given):
        raise SpecError(f"policy: a function of two answers is needed, not {function!r}")
    try:
        made: UserPolicy = _of_function(function)
    except TypeError:  # it can't be remembered
        made = UserPolicy(function)
    return made


# The same for a function at every call, so that it is compiled once; and the same policy for a call
# that is written at every step, so that a window knows it again.
_of_function: Any = lru_cache(64)(UserPolicy)
_last: Any = lru_cache(64, typed=True)(Last)
_since_extreme: Any = lru_cache(64)(SinceExtreme)
_since_longest_run: Any = lru_cache(64)(SinceLongestRun)
_at_most: Any = lru_cache(64, typed=True)(AtMost)


def _make_program(
    function: Callable[[Any, Any], Any], answers: type | None, kinds: tuple[str, ...]
) -> PolicyProgram:
    try:
        from mta import _compiled_policies as compiler
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "numba"
        reason = "numba is not installed" if missing else f"numba can't be imported: {error}"
        return PolicyProgram(reason)
    try:
        return PolicyProgram(judge=compiler.compile_policy(function, answers, kinds))
    except compiler.NotCompilableError as error:
        return PolicyProgram(str(error))


def _checked(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise SpecError(f"name: must be the name of an answer, not {name!r}")
    return name


def _listed(pairs: tuple[tuple[str, Aggregate], ...]) -> str:
    return ", ".join(repr(name) for name, _ in pairs)


def floors(total: int | float) -> tuple[int, float]:
    """The greatest integer and the greatest double that are at most `total`."""
    real = float(total)
    return math.floor(total), real if real <= total else math.nextafter(real, -math.inf)
