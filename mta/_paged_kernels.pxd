# cython: language_level=3
"""What kernels over pages by a monoid of the forest share; see ``_paged_kernels.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport ForestOps, Lowering
from mta._monoids cimport Lift
from mta._paged cimport PagedKernel


cdef class PagedForest(PagedKernel):
    cdef Lift how
    cdef const ForestOps* ops
    cdef Lowering lowering

    cdef bint counts_row(self, int64_t row) noexcept nogil
