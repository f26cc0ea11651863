import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

_Ints = NDArray[np.int64]

@disjoint_base
class Extents:
    def __new__(
        cls,
        range: int | None,
        slide: int,
        origin: int = 0,
        right: bool = False,
        edges: _Ints | None = None,
        landmark: bool = False,
    ) -> Self: ...
    def wids(self, ts: _Ints) -> tuple[_Ints, _Ints]: ...
    @property
    def origin(self) -> int: ...
    def check(self, low: int, high: int) -> None: ...
    def starts(self, ts: _Ints) -> _Ints: ...
    def ended_by(self, to: _Ints) -> _Ints: ...
    def ended(self, to: int) -> int: ...
    def cuts(self, ts: _Ints, wid: _Ints, lo: _Ints, hi: _Ints) -> _Ints | None: ...
    def edges_of(self, wids: _Ints) -> tuple[_Ints, _Ints]: ...
    def over(
        self,
        ts: _Ints,
        offsets: _Ints,
        empty: bool = False,
        last: int | None = None,
        first: int | None = None,
    ) -> tuple[_Ints, _Ints, _Ints, _Ints]: ...
