from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Lowering:
    def __init__(self, outputs: list[tuple[str, int, NDArray[np.int64]]]) -> None: ...

class Forest:
    monoid: str
    source: str
    nan: str
    def __init__(
        self,
        monoid: str,
        source: str = "float",
        nan: str = "propagate",
        *,
        combine: Callable[[Any, Any], Any] | None = None,
        zero: Any = None,
    ) -> None: ...
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
