"""Amounts of memory, as written ("128KB", "2 GB") or as numbers of bytes."""

from __future__ import annotations

import operator
import re

from mta.errors import SpecError

# Binary multiples under either name, as memory is sold and as blocks are cut.
_UNITS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1,
    "k": 2**10, "kb": 2**10, "kib": 2**10,
    "m": 2**20, "mb": 2**20, "mib": 2**20,
    "g": 2**30, "gb": 2**30, "gib": 2**30,
    "t": 2**40, "tb": 2**40, "tib": 2**40,
}  # fmt: skip
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def parse_bytes(value: object, argument: str = "memory") -> int:
    """Read an amount of memory; `argument` is named in the error.

    Parameters
    ----------
    value
        A whole number of bytes, or a number and a unit as text: B, KB, MB, GB, TB (or KiB and so
        on, which are the same), each 1,024 of the one before.

    Raises
    ------
    SpecError
        It is no such amount, or less than a byte.

    >>> parse_bytes("128KB"), parse_bytes("2 GB"), parse_bytes("1.5 MiB"), parse_bytes(4096)
    (131072, 2147483648, 1572864, 4096)
    """
    if isinstance(value, str):
        amount = _parse_text(value)
    elif isinstance(value, bool):
        amount = None
    else:
        try:
            amount = operator.index(value)  # type: ignore[arg-type]  # that is what it finds out
        except TypeError:
            amount = None
    if amount is None:
        raise SpecError(
            f"{argument}: {value!r} is not an amount of memory; write it like '128KB' or '2 GB', "
            "or pass a whole number of bytes"
        )
    if amount < 1:
        raise SpecError(f"{argument}: a byte at least is needed, not {value!r}")
    return amount


def _parse_text(text: str) -> int | None:
    match = _TEXT.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        return None
    whole, _, part = match[1].partition(".")
    scale: int = 10 ** len(part)
    return int(whole + part) * _UNITS[match[2]] // scale
