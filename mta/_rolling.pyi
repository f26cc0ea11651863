from typing import Any

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

def row_bounds(offsets: _Ints, first: int, last: int) -> tuple[_Ints, _Ints]: ...
def time_bounds(
    ts: _Ints,
    offsets: _Ints,
    span: int | None,
    lag: int,
    left: bool,
    right: bool,
    arrival: bool,
) -> tuple[_Ints, _Ints]: ...
def next_bounds(
    ts: _Ints,
    start: int,
    first: int,
    last: int,
    span: int | None,
    lag: int,
    left: bool,
    right: bool,
    arrival: bool,
    final: bool,
) -> tuple[_Ints, _Ints, int, int]: ...
def count_valid(valid: NDArray[np.uint8], lo: _Ints, hi: _Ints) -> _Ints: ...
def slide(
    monoid: str,
    source: str,
    nan: str,
    values: NDArray[Any],
    valid: NDArray[np.uint8] | None,
    lo: _Ints,
    hi: _Ints,
    counts: _Ints | None,
    outputs: list[tuple[str, int, _Ints]],
) -> int: ...
