from collections.abc import Sequence
from typing import Any

from typing_extensions import disjoint_base

from mta._kernel import Counter
from mta._leaving import LeavingKernel

@disjoint_base
class PagedRanks(LeavingKernel):
    def __init__(
        self, counter: Counter, source: str, nan: str, wanted: Sequence[tuple[Any, ...]]
    ) -> None: ...
    @property
    def log(self) -> Any: ...
    def open_log(self, log: Any, memory: int) -> None: ...
