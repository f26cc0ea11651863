from typing_extensions import Self, disjoint_base

from mta._kernel import Counter
from mta._sums import SubtractingKernel

@disjoint_base
class WideSumKernel(SubtractingKernel):
    def __new__(
        cls, counter: Counter, source: str, wanted: list[tuple[str, int]], overflow: str
    ) -> Self: ...
    def __init__(
        self, counter: Counter, source: str, wanted: list[tuple[str, int]], overflow: str
    ) -> None: ...
