import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

_Ints = NDArray[np.int64]

@disjoint_base
class Bounds:
    rows: int
    @property
    def include_self(self) -> bool: ...
    def arrays(self) -> tuple[_Ints, _Ints]: ...

@disjoint_base
class GivenBounds(Bounds):
    def __new__(cls, lo: _Ints, hi: _Ints, cut: _Ints | None = None) -> Self: ...

@disjoint_base
class RowBounds(Bounds):
    def __new__(cls, offsets: _Ints, first: int, last: int, every: int = 1) -> Self: ...

@disjoint_base
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
        every: int = 1,
    ) -> Self: ...

def rows_before(ts: _Ints, begin: _Ints, kept: _Ints, edges: _Ints) -> _Ints: ...
def next_bounds_of_keys(
    ts: _Ints,
    offsets: _Ints,
    start: _Ints,
    first: _Ints,
    last: _Ints,
    span: int | None,
    lag: int,
    left: bool,
    right: bool,
    arrival: bool,
    final: bool,
    known: int | None,
) -> tuple[_Ints, _Ints, _Ints]: ...
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
    known: int | None = None,
    base: int = 0,
) -> tuple[_Ints, _Ints]: ...
def bounds_until(
    ts: _Ints,
    start: int,
    stop: int,
    first: int,
    last: int,
    span: int | None,
    lag: int,
    left: bool,
    right: bool,
    arrival: bool,
    final: bool,
    base: int,
) -> tuple[_Ints, _Ints]: ...
def row_bounds(start: int, stop: int, first: int, last: int, end: int) -> tuple[_Ints, _Ints]: ...
