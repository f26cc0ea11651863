from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from mta._kernel import Kernel

@disjoint_base
class HalvesKernel(Kernel):
    def answer_to(self, arrays: list[NDArray[Any]]) -> None: ...
    def marks(self) -> tuple[int]: ...
    def resume(self, marks: tuple[int, ...]) -> None: ...
    def merged(self, program: list[int]) -> NDArray[np.float64]: ...
