from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from typing_extensions import disjoint_base

from mta._kernel import Counter
from mta._paged import PagedKernel

@disjoint_base
class Fold:
    words: int
    def __init__(self, kernel: PagedKernel) -> None: ...
    def clear(self, parts: NDArray[Any]) -> None: ...
    def fold(
        self, columns: list[NDArray[Any]], valid: Any, edges: NDArray[Any], parts: NDArray[Any]
    ) -> None: ...
    def join(self, table: NDArray[Any], codes: NDArray[Any], parts: NDArray[Any]) -> None: ...
    def walk_back(
        self,
        table: NDArray[Any],
        codes: NDArray[Any],
        parts: NDArray[Any],
        before: NDArray[Any],
    ) -> None: ...
    def lower(
        self, parts: NDArray[Any], counts: NDArray[Any], answers: list[NDArray[Any]]
    ) -> int: ...

@disjoint_base
class PlacedKernel(PagedKernel):
    def __init__(
        self, counter: Counter, source: str | None, nan: str, wanted: Sequence[str]
    ) -> None: ...

@disjoint_base
class BackKernel(PagedKernel):
    def __init__(self, counter: Counter, source: str, nan: str, wanted: Sequence[str]) -> None: ...
