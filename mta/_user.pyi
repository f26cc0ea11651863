from typing import Any

from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._kernel import Counter, Kernel
from mta.monoids import Program, UserMonoid

MOST_COLUMNS: int
NOTHING: object

@disjoint_base
class UserKernel(Kernel):
    monoid: UserMonoid
    program: Program
    gives: str
    items: Any
    @property
    def compiled(self) -> bool: ...
    def __new__(
        cls,
        counter: Counter,
        monoid: UserMonoid,
        sources: tuple[str, ...],
        program: Program,
        need: int,
    ) -> Self: ...
    def __init__(
        self,
        counter: Counter,
        monoid: UserMonoid,
        sources: tuple[str, ...],
        program: Program,
        need: int,
    ) -> None: ...
    def attach(self, columns: list[NDArray[Any]], valid: Any, first: int) -> None: ...
    def check_monoid(self) -> None: ...
    def marks(self) -> tuple[int, ...]: ...
    def resume(self, marks: tuple[int, ...]) -> None: ...

@disjoint_base
class CompiledUserKernel(UserKernel):
    def answer_to(self, arrays: list[NDArray[Any]]) -> None: ...

@disjoint_base
class PythonUserKernel(UserKernel):
    def answer_to(self, arrays: list[NDArray[Any]]) -> None: ...
