from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mta._bounds import Bounds

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

class Counter:
    def __new__(
        cls, valid: _Bytes | None, wanted: list[tuple[int, _Bytes | None, _Ints | None]]
    ) -> Self: ...
    def is_full(self, k: int) -> bool: ...

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
