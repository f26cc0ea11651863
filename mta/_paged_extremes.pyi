from typing_extensions import disjoint_base

from mta._paged_kernels import PagedForest

@disjoint_base
class PagedExtremes(PagedForest): ...
