from collections.abc import Sequence

from typing_extensions import disjoint_base

from mta._kernel import Counter
from mta._paged_distinct import PagedDistinct

@disjoint_base
class PagedTallies(PagedDistinct):
    def __init__(self, counter: Counter, wanted: Sequence[str | tuple[str, int]]) -> None: ...
