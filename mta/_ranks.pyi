from typing import Any

from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._kernel import Counter, Kernel

INTERPOLATIONS: dict[str, int]
SOURCES: dict[str, int]

@disjoint_base
class RanksKernel(Kernel):
    least: int
    def __new__(
        cls, counter: Counter, source: str, nan: str, wanted: list[tuple[Any, ...]]
    ) -> Self: ...
    def __init__(
        self, counter: Counter, source: str, nan: str, wanted: list[tuple[Any, ...]]
    ) -> None: ...
    @property
    def fast(self) -> bool: ...
    @fast.setter
    def fast(self, value: bool) -> None: ...
    @property
    def ranked(self) -> bool: ...
    def attach(self, columns: list[NDArray[Any]], valid: Any, first: int) -> None: ...
    def answer_to(self, arrays: list[Any]) -> None: ...
