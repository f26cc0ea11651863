"""Windows larger than memory: quantiles and the greatest values, exactly.

As those of ``_ranks.pyx``, to the last bit, but the values of the window are in a `Multiset`: most of
them on a store. A row is looked at when it comes and when it leaves.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free, malloc
from mta._core cimport CHUNK
from mta._kernel cimport Counter, Kernel, Lists, Scan
from mta._leaving cimport LeavingKernel
from mta._multiset cimport Multiset
from mta._ranks_lower cimport (
    MTA_NAN_BITS, MTA_RANK_FLOAT, mta_lower_quantile, mta_place, mta_quantile, mta_rank_cell,
    mta_rank_key, room_for_found,
)
import numpy as np

from mta._ranks import INTERPOLATIONS as _INTERPOLATIONS, SOURCES as _SOURCES

cdef enum:
    TOP_RANGES = 4      # in which the greatest values are, by and large, if each has room for them


cdef class PagedRanks(LeavingKernel):
    """quantile and top_k; arguments and answers as those of ``RanksKernel``.

    Cost: O(log window) a row, as of ``Multiset``. Memory: what `open_log` says, and some 32 bytes for
    every sqrt(window) rows.
    """

    cdef Multiset keys
    cdef int source
    cdef bint nan_wins
    cdef int64_t missing
    cdef int64_t nans
    cdef int quantiles
    cdef mta_quantile* quantile
    cdef int64_t** out          # per quantile
    cdef int64_t* found         # per quantile: 3 numbers for each of `room` windows
    cdef int64_t room
    cdef int tops
    cdef int64_t* most          # per top
    cdef int64_t* top           # the greatest keys of a window
    cdef list lists             # per top

    def __cinit__(self, Counter counter, str source, str nan, wanted):
        quantiles = [entry for entry in wanted if entry[0] == "quantile"]
        tops = [k for what, k, *_ in wanted if what == "top"]
        self.source = _SOURCES[source]
        self.nan_wins = nan == "propagate"
        self.missing = MTA_NAN_BITS if self.source == MTA_RANK_FLOAT else 0
        self.quantiles, self.tops = len(quantiles), len(tops)
        self.quantile = <mta_quantile*> calloc(self.quantiles + 1, sizeof(mta_quantile))
        self.out = <int64_t**> calloc(self.quantiles + 1, sizeof(int64_t*))
        self.most = <int64_t*> calloc(self.tops + 1, sizeof(int64_t))
        self.top = <int64_t*> malloc((max(tops, default=0) + 1) * sizeof(int64_t))
        if self.quantile == NULL or self.out == NULL or self.most == NULL or self.top == NULL:
            raise MemoryError()
        for k, (_, q, interpolation) in enumerate(quantiles):
            self.quantile[k].q = q
            self.quantile[k].interpolation = _INTERPOLATIONS[interpolation]
        for k, most in enumerate(tops):
            self.most[k] = most

    def __init__(self, Counter counter, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.quantile)
        free(self.out)
        free(self.most)
        free(self.top)
        free(self.found)

    def open_log(self, log, int64_t memory):
        """Where keys go that are not in memory: a ``CountLog``, once and before all else.

        memory : bytes
        """
        cdef int64_t greatest = max([self.most[k] for k in range(self.tops)], default=0)
        ranges = 2 * self.quantiles + (TOP_RANGES if self.tops else 0)
        self.keys = Multiset(log, memory, self.quantiles, ranges, greatest)

    @property
    def log(self):
        """The log of `open_log`."""
        return self.keys.log

    @property
    def nbytes(self):
        """Bytes held."""
        return self.keys.nbytes + 24 * self.room * self.quantiles

    def answer_to(self, arrays):
        cdef int64_t[::1] view
        self.answers = arrays
        self.lists = [answer for answer in arrays if isinstance(answer, Lists)]
        for k, array in enumerate([answer for answer in arrays if not isinstance(answer, Lists)]):
            view = array.view(np.int64)
            self.out[k] = &view[0] if view.shape[0] else NULL

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i
        cdef int k
        if n > self.room:
            self.reserve(min(max(n, 2 * self.room), <int64_t> CHUNK))
        for i in range(n):
            self.move(lo[start + i], hi[start + i])
            for k in range(self.quantiles):
                self.look_up(k, i)
            if self.tops:
                with gil:
                    self.add_lists(start + i)
        for k in range(self.quantiles):
            mta_lower_quantile(&self.quantile[k], n, self.source, self.out[k] + start)
        return -1

    cdef int reserve(self, int64_t windows) except -1 nogil:
        """Room for what is found for so many windows."""
        self.room = 0
        self.found = room_for_found(self.quantile, self.quantiles, self.found, windows)
        if self.found == NULL:
            with gil:
                raise MemoryError(f"{windows} windows")
        self.room = windows
        return 0

    cdef int look_up(self, int k, int64_t i) except -1 nogil:
        """What one quantile of the window at hand is made of."""
        cdef mta_quantile* q = &self.quantile[k]
        cdef int64_t key, after
        q.share[i] = 0.0
        if self.keys.total == 0 or (self.nan_wins and self.nans):
            q.first[i] = q.second[i] = self.missing
            return 0
        mta_place(q, self.keys.total)
        self.keys.select(k, q.position, &key, &after)
        q.first[i] = q.second[i] = mta_rank_cell(key, self.source)
        if q.pair:
            q.second[i] = mta_rank_cell(after, self.source)
            q.share[i] = q.between
        return 0

    cdef int add_lists(self, int64_t window) except -1:
        cdef Lists lists
        cdef int64_t i, n
        cdef int k
        for k in range(self.tops):
            lists = self.lists[k]
            n = self.keys.greatest(self.most[k], self.top)
            for i in range(n):
                lists.add(mta_rank_cell(self.top[i], self.source))
            lists.length[window] = n
        return 0

    cdef int clear(self) except -1 nogil:
        self.nans = 0
        if self.keys.total:
            with gil:
                self.keys.clear()
        return 0

    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil:
        cdef int64_t row, key
        for row in range(start, stop):
            if rows.valid != NULL and not rows.valid[row]:
                continue
            key = mta_rank_key(rows.values[row].i, self.source)
            if self.source == MTA_RANK_FLOAT and key == INT64_MAX:
                self.nans += sign
            self.keys.change(key, sign)
        return 0

    # -------------------------------------------------------------------------- save, restore

    def rest(self):
        LeavingKernel.rest(self)
        self.keys.rest()

    def save(self):
        return self.first, self.last, self.nans, self.keys.save()

    def restore(self, saved):
        self.first, self.last, self.nans, keys = saved
        self.keys.restore(keys)

    def to_parts(self):
        parts = self.keys.to_parts()
        told = np.array([self.first, self.last, self.nans, *map(len, parts)], np.int64)
        return told.tobytes(), b"".join(parts)

    def fill(self, bytes saved, bytes pages):
        told = np.frombuffer(saved, np.int64).tolist()
        ends = np.cumsum(told[3:]).tolist()
        if len(told) < 3 or min(told) < -1 or sum(told[3:]) != len(pages):
            raise ValueError("a kernel's state is cut short")
        self.first, self.last, self.nans = told[:3]
        self.keys.fill([pages[end - size:end] for end, size in zip(ends, told[3:])])
