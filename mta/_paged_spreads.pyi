from collections.abc import Sequence

from typing_extensions import disjoint_base

from mta._halves import HalvesKernel
from mta._kernel import Counter

@disjoint_base
class SquaresKernel(HalvesKernel):
    def __init__(
        self, counter: Counter, source: str, wanted: Sequence[tuple[str, int]]
    ) -> None: ...
