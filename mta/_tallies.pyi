from typing import Any

from typing_extensions import Self, disjoint_base

from mta._kernel import Counter, Kernel

_Wanted = list[str | tuple[str, int]]

@disjoint_base
class TallyKernel(Kernel):
    def __new__(cls, counter: Counter, wanted: _Wanted) -> Self: ...
    def __init__(self, counter: Counter, wanted: _Wanted) -> None: ...
    def answer_to(self, arrays: list[Any]) -> None: ...
