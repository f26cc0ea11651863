from collections.abc import Sequence

from typing_extensions import disjoint_base

from mta._halves import HalvesKernel
from mta._kernel import Counter
from mta._paged import PagedKernel

SIDE_OF: dict[str, int]

@disjoint_base
class PagedForest(PagedKernel):
    def __init__(
        self,
        counter: Counter,
        monoid: str,
        source: str,
        nan: str,
        wanted: Sequence[tuple[str, int]],
    ) -> None: ...

class FoldedSpreads(PagedForest): ...

@disjoint_base
class FoldedHalves(PagedKernel):
    def __init__(self, counter: Counter, halves: HalvesKernel) -> None: ...

@disjoint_base
class PagedPlaces(PagedKernel):
    def __init__(
        self, counter: Counter, source: str | None, nan: str, wanted: Sequence[str]
    ) -> None: ...
