from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, disjoint_base

from mta._partials import Layout, Partials

@disjoint_base
class Panes:
    layout: Layout
    single: bool
    def __new__(
        cls,
        layout: Layout,
        single: bool = True,
        endless: bool = False,
        most: int = 0,
        least: int = 0,
    ) -> Self: ...
    def add(
        self,
        codes: NDArray[np.int64],
        buckets: NDArray[np.int64],
        feeds: list[NDArray[Any]],
        counted: list[NDArray[np.uint8] | None],
        repeats: NDArray[np.int64] | None = None,
        step: int = 0,
    ) -> None: ...
    def merge(
        self,
        partials: Partials,
        codes: NDArray[np.int64],
        buckets: NDArray[np.int64],
        repeats: NDArray[np.int64] | None = None,
        step: int = 0,
    ) -> None: ...
    def close(
        self, low: NDArray[np.int64], high: NDArray[np.int64], into: Partials | None = None
    ) -> Partials: ...
    def close_group(
        self, code: int, low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> Partials: ...
    def drop(self, before: int) -> None: ...
    def seal(self, before: int) -> None: ...
    @property
    def buckets(self) -> NDArray[np.int64]: ...
    @property
    def codes(self) -> int: ...
    @property
    def alive(self) -> int: ...
    @property
    def eager(self) -> int: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...
    def set_bounds(self, most: int, least: int) -> None: ...
    def compact(self, codes: int) -> NDArray[np.int32]: ...
    def count_input(self, input: int) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def held(self) -> tuple[int, int]: ...
    def to_parts(self) -> list[bytes]: ...
    def fill(self, parts: list[bytes]) -> None: ...
