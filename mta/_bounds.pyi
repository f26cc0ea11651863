from typing import Self

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

class Bounds:
    rows: int
    @property
    def include_self(self) -> bool: ...
    def arrays(self) -> tuple[_Ints, _Ints]: ...

class RowBounds(Bounds):
    def __new__(cls, offsets: _Ints, first: int, last: int) -> Self: ...

class TimeBounds(Bounds):
    def __new__(
        cls,
        ts: _Ints,
        offsets: _Ints,
        span: int | None,
        lag: int,
        left: bool,
        right: bool,
        arrival: bool,
    ) -> Self: ...

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
) -> tuple[_Ints, _Ints]: ...
