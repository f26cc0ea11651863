from typing import Any

from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._kernel import Counter, Kernel

@disjoint_base
class ExtremesKernel(Kernel):
    def __new__(
        cls, counter: Counter, monoid: str, source: str, nan: str, wanted: list[tuple[str, int]]
    ) -> Self: ...
    def __init__(
        self, counter: Counter, monoid: str, source: str, nan: str, wanted: list[tuple[str, int]]
    ) -> None: ...
    def answer_to(self, arrays: list[NDArray[Any]]) -> None: ...
