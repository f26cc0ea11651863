# cython: language_level=3
"""Where the nodes of a forest on a store are: the newest, the oldest, all others; ``_tiers.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_LEVELS
from mta._fifo_ops cimport FifoOps
from mta._fifo_state cimport FifoState
from mta._monoids cimport BoxedContext
from mta._rings cimport Ring
from mta._tier_pairs cimport Pair


cdef enum:
    MAX_TIERS = 64


cdef struct Tier:
    int lowest          # the level of its own nodes, and
    int levels          # how many it has, with those made of them
    size_t size         # bytes of a node
    Ring* tail          # the newest two blocks
    Pair head           # the oldest two, when they are not in the tail
    Pair found          # what a search has asked for
    int64_t stored      # blocks before this one are not in the tail: on the store, unless they have left
    int64_t kept        # blocks before this one are off the store, or named in `gone` or `going`
    int64_t taken       # blocks before this one were never in the tail of this process
    int64_t asked       # the last block that was to be read ahead


cdef class Tiers:
    cdef FifoState* state
    cdef const FifoOps* ops
    cdef BoxedContext boxes    # of a monoid of Python values, or None
    cdef object store
    cdef object ahead          # the store's `prefetch`, or None
    cdef readonly object names # BlockNames,
    cdef object leaving        # and which of them are to go
    cdef readonly int bits     # a block has 2^bits nodes
    cdef int n                 # tiers that have begun, that of the nulls not counted
    cdef Tier tiers[MAX_TIERS]
    cdef Ring* heads[MAX_LEVELS]
    cdef int64_t apart_from    # the front for which `heads` were set
    cdef int64_t prepared      # the block of rows that it is in; -1: what it needs was not read
    cdef readonly int64_t reads, writes
    # Nulls are counted from the first one until none is inside: a tier of one level, whose nodes are
    # how many there were before each row.
    cdef Tier nulls
    cdef bint counting
    cdef int64_t null_count
    cdef int64_t nulls_from    # blocks before this one are zeros and not on the store

    cdef int start(self, FifoState* state, const FifoOps* ops, BoxedContext boxes) except -1
    cdef int restart(self) except -1
    cdef int make_room(self) except -1
    cdef int begin_tiers(self, int64_t back) except -1
    cdef int prepare(self, int64_t front) except -1
    cdef int fill_heads(self, int64_t front) except -1
    cdef int forget_heads(self) except -1
    cdef bint is_apart(self, int i, int64_t front) noexcept
    cdef void point_heads(self) noexcept
    cdef bint copied(self, Tier* t, int i, int64_t block, int64_t front) except -1
    cdef int64_t oldest_in_tail(self, Tier* t) noexcept
    cdef int build(self, Tier* t, Pair* pair, int64_t block, int64_t front) except -1
    cdef int read_ahead(self, int64_t front) except -1
    cdef void* node(self, int level, int64_t index) except NULL
    cdef Ring* having(self, int i, int64_t block) except NULL
    cdef int count_null(self) except -1
    cdef void note(self, int64_t position, bint null) noexcept nogil
    cdef int64_t nulls_at(self, int64_t position) noexcept nogil
    cdef int64_t nulls_before(self, int64_t position) except -1
    cdef int stop_counting(self) except -1
    cdef bytes encoded_block(self, Tier* t, int64_t block, bytes key)
    cdef bytes encoded(self, Tier* t, int64_t start, int64_t stop, bytes end)
    cdef int decode(self, Tier* t, Pair* pair, int64_t block, bytes key, bytes stored,
                    int64_t front) except -1
    cdef int place_zeros(self, Pair* pair, int64_t block) except -1
    cdef int place(self, Tier* t, Ring* ring, int64_t start, int64_t stop, bytes stored,
                   Py_ssize_t size, bytes key) except -1
    cdef Tier* tier(self, int i) noexcept
    cdef int64_t front_block(self, Tier* t) noexcept
    cdef bytes key(self, int i, int64_t block)
    cdef list read(self, list keys)
    cdef int write(self, dict changes) except -1
    cdef int let_go(self, int i, int64_t stop) except -1
    cdef int write_header(self) except -1
    cdef list header(self)
    cdef int take_off_strays(self) except -1
    cdef int take(self, list parts) except -1
    cdef list live(self)
    cdef int64_t nbytes(self)
