"""The arguments of specs: checked, and as they are shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from mta.arguments import is_choice, no_whole, plain_number
from mta.calendars import Period
from mta.durations import Duration, parse_duration
from mta.errors import SpecError


def length_of(value: object, argument: str) -> int | Duration | None:
    """A number of rows as it is, anything else as a duration."""
    value = plain_number(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return parse_duration(value, argument)


def key_names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name or several as a tuple."""
    if by is None:
        return ()
    if not isinstance(by, (str, list, tuple)):
        raise SpecError(f"by: must be the name of a column or a list of names, not {by!r}")
    names = (by,) if isinstance(by, str) else tuple(by)
    for name in names:
        if not isinstance(name, str):
            raise SpecError(f"by: must be the name of a column, not {name!r}")
    if len(set(names)) != len(names):
        raise SpecError(f"by: a column is named twice in {names!r}")
    return names


def check_column(name: object, argument: str) -> None:
    """Refuse what is no column's name."""
    if name is not None and not isinstance(name, str):
        raise SpecError(f"{argument}: must be the name of a column, not {name!r}")


def check_choice(value: object, argument: str, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices."""
    if not is_choice(value, choices):
        raise SpecError(f"{argument}: must be one of {choices}, not {value!r}")


def check_whole(value: object, argument: str, least: int) -> None:
    """Refuse what is no whole number from `least` on, nor None."""
    why = "" if value is None else no_whole(value, least)
    if why:
        raise SpecError(f"{argument}: {why}")


def source_names(sources: Iterable[Hashable] | None, argument: str = "sources") -> tuple[Any, ...]:
    """The names of sources, or the only one, as a tuple."""
    if sources is None or isinstance(sources, str):
        return () if sources is None else (sources,)
    if isinstance(sources, bytes) or not isinstance(sources, Iterable):
        raise SpecError(f"{argument}: must be a list of names of sources, not {sources!r}")
    names = tuple(sources)
    for name in names:
        if name is None or not isinstance(name, Hashable):
            raise SpecError(f"{argument}: {name!r} is not the name of a source")
    return names


def check_stream_name(name: object, reserved: str) -> None:
    """Refuse what no stream on a store can be called: it is part of its blocks' keys."""
    if not isinstance(name, str) or not name or any(mark in name for mark in reserved):
        marks = " and ".join(reserved)
        raise SpecError(f"name: text without {marks} is needed, not {name!r}")


def amount_of(length: int | Duration, argument: str) -> int:
    """Rows, ticks or nanoseconds, which the kernels take as int64."""
    amount = length if isinstance(length, int) else length.amount
    if abs(amount) >= 2**63:
        raise SpecError(f"{argument}: {plain(length)!r} does not fit in 64 bits")
    return amount


def plain(value: Any) -> Any:
    """A field as JSON and `rolling` take it."""
    if isinstance(value, (Duration, Period)):
        return str(value)
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else (list(value) or None)
    return value
