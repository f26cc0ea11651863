from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray
from typing_extensions import disjoint_base

from mta._kernel import Counter, Kernel

def fronts_in_block(
    lo: NDArray[Any],
    hi: NDArray[Any],
    at: NDArray[Any],
    times: NDArray[Any],
    first: int,
    block: NDArray[Any],
    block_first: int,
    back: int,
    since: int,
    end: int,
) -> int: ...

@disjoint_base
class GivenCounter(Counter):
    def give(self, counts: NDArray[Any]) -> None: ...

@disjoint_base
class PageParts: ...

@disjoint_base
class PagedKernel(Kernel):
    @property
    def nbytes(self) -> int: ...
    def open_pages(
        self, bits: int, load: Callable[[int, int], tuple[list[Any], Any, int]]
    ) -> None: ...
    def bind(self, columns: Sequence[Any], valid: Any, first: int) -> None: ...
    def let_go(self) -> None: ...
    def rest(self) -> None: ...
    def save(self) -> bytes: ...
    def restore(self, saved: bytes) -> None: ...
    def to_parts(self) -> tuple[bytes, bytes]: ...
    def fill(self, saved: bytes, pages: bytes) -> None: ...
