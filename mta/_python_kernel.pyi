from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from mta._kernel import Kernel, Lists

_Ints = NDArray[np.int64]

@disjoint_base
class PythonKernel(Kernel):
    columns: Sequence[_Ints]
    valid: NDArray[np.bool_] | None
    first: int
    cuts: _Ints | None
    def answer(self, start: int, lo: _Ints, hi: _Ints) -> int | None: ...
    def marks(self) -> tuple[int, ...]: ...
    def resume(self, marks: tuple[int, ...]) -> None: ...
    def go_past(self, lo: _Ints, hi: _Ints) -> None: ...

def put_list(lists: Lists, window: int, items: Sequence[int]) -> None: ...
