from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._bounds import Bounds

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

@disjoint_base
class Counter:
    def __new__(
        cls, valid: _Bytes | None, wanted: list[tuple[int, _Bytes | None, _Ints | None]]
    ) -> Self: ...
    def is_full(self, k: int) -> bool: ...

@disjoint_base
class State:
    def __new__(
        cls,
        monoid: str,
        source: str,
        nan: str,
        values: NDArray[Any],
        valid: _Bytes | None,
        counter: Counter | None,
        outputs: list[tuple[str, int, _Ints]],
    ) -> Self: ...

def slide(
    bounds: Bounds, counters: list[Counter], states: list[State]
) -> tuple[State, int] | None: ...
