from typing import Any

from numpy.typing import NDArray
from typing_extensions import disjoint_base

from mta._kernel import Counter
from mta._leaving import LeavingKernel

@disjoint_base
class CountTable:
    n: int
    def __new__(cls) -> CountTable: ...
    @property
    def nbytes(self) -> int: ...
    def entries(self) -> NDArray[Any]: ...
    def fill(self, codes: NDArray[Any], counts: NDArray[Any], logged: NDArray[Any]) -> None: ...

@disjoint_base
class Ahead:
    def __new__(cls, codes: NDArray[Any] = ..., counts: NDArray[Any] = ...) -> Ahead: ...

@disjoint_base
class PagedDistinct(LeavingKernel):
    def __init__(self, counter: Counter, answers: int) -> None: ...
    @property
    def log(self) -> Any: ...
    def open_log(self, log: Any, memory: int) -> None: ...
