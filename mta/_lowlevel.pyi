from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._partials import Layout, Partials

@disjoint_base
class LowTable:
    layout: Layout
    slots: int
    every: int
    def __new__(cls, layout: Layout, slots: int, every: int = 0) -> Self: ...
    def add(
        self,
        codes: NDArray[np.int64],
        panes: NDArray[np.int64],
        feeds: list[NDArray[Any]],
        counted: list[NDArray[np.uint8] | None],
    ) -> None: ...
    def complete(self, before: int) -> None: ...
    def flush(self, before: int) -> int: ...
    def take(self) -> Partials: ...
    @property
    def swept(self) -> bool: ...
    @property
    def held(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
