"""What arguments are, whatever they are of: a word of several, a whole number of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST = 2**63 - 1  # that the kernels take as int64


def is_choice(value: Any, choices: Sequence[str]) -> bool:
    """Whether it is one of the words. (What is no text may compare as an array, or as NA.)"""
    return isinstance(value, str) and value in choices


def plain_number(value: Any) -> Any:
    """NumPy's numbers as Python's, which show as what they are; anything else as it is. (Its
    lengths of time are integers to NumPy.)"""
    number = isinstance(value, (np.integer, np.floating)) and not isinstance(value, np.timedelta64)
    return value.item() if number else value


def no_whole(value: Any, least: int, most: int = MOST) -> str:
    """Why it is no whole number from `least` to `most`, to be told; "" where it is one."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and least <= value <= most:
        return ""
    end = f" to {most}" if whole and value > most else ""
    return f"must be a whole number from {least}{end}, not {value!r}"
