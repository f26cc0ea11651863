from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

OUTPUTS: dict[str, int]

@disjoint_base
class Lowering:
    def __new__(cls, wanted: list[tuple[str, int]]) -> Self: ...
    def answer_to(self, arrays: list[NDArray[Any]]) -> None: ...

@disjoint_base
class Forest:
    monoid: str
    source: str
    nan: str
    def __new__(
        cls,
        monoid: str,
        source: str = "float",
        nan: str = "propagate",
        *,
        combine: Callable[[Any, Any], Any] | None = None,
        zero: Any = None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def front(self) -> int: ...
    @property
    def back(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def insert(self, value: Any) -> None: ...
    def evict(self, n: int = 1) -> None: ...
    def retract(self) -> None: ...
    def restart(self) -> None: ...
    def query(self, what: str = "", n: int = -1) -> Any: ...
    def slide(
        self,
        values: NDArray[Any],
        valid: NDArray[np.uint8] | None,
        first: int,
        lo: NDArray[np.int64],
        hi: NDArray[np.int64],
        counts: NDArray[np.int64] | None,
        outputs: list[tuple[str, int, NDArray[np.int64]]],
    ) -> int: ...
