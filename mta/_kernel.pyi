from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._bounds import Bounds

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]
_Mask = NDArray[np.bool_] | NDArray[np.uint8]

KEPT: int

@disjoint_base
class Counter:
    def __new__(cls, needs: list[int]) -> Self: ...
    def attach(self, valid: _Mask | None, first: int) -> None: ...
    def answer_to(self, answers: Sequence[tuple[_Mask | None, _Ints | None]]) -> None: ...
    def is_full(self, k: int) -> bool: ...

@disjoint_base
class Kernel:
    least: int
    def __init__(self, counter: Counter) -> None: ...
    def attach(self, columns: list[NDArray[Any]], valid: _Mask | None, first: int) -> None: ...
    def answer_to(self, arrays: list[Any]) -> None: ...
    def marks(self) -> tuple[int, ...]: ...
    def resume(self, marks: tuple[int, ...]) -> None: ...

def slide_keys(
    lo: _Ints,
    hi: _Ints,
    edges: _Ints,
    counters: list[Counter],
    kernels: list[Kernel],
    marks: list[_Ints],
    marked: _Bytes,
    shifts: _Ints,
) -> tuple[Kernel, int] | None: ...

@disjoint_base
class Lists:
    lengths: _Ints
    def __new__(cls, windows: int) -> Self: ...
    def items(self) -> _Ints: ...

def slide(
    bounds: Bounds,
    counters: list[Counter],
    kernels: list[Kernel],
    start: int = 0,
    stop: int | None = None,
) -> tuple[Kernel, int] | None: ...
