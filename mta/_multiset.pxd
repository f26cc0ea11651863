# cython: language_level=3
"""Keys of which only a part is in memory, and which one has a rank; see ``_multiset.pyx``."""
from libc.stdint cimport int64_t


cdef inline int64_t lower_bound(const int64_t* keys, int64_t n, int64_t key) noexcept nogil:
    """How many of them are less."""
    cdef const int64_t* at = keys
    cdef int64_t half
    if n == 0:
        return 0
    while n > 1:
        half = n >> 1
        at += half if at[half - 1] < key else 0
        n -= half
    return (at - keys) + (at[0] < key)


cdef struct Range:
    int64_t low     # its keys are those from here on, before the next range
    int64_t rows    # so many, each as often as it occurs
    int64_t most    # is cut in two when it has more
    int64_t held    # number of its contents; -1: not at hand


cdef struct Contents:
    # The keys of a range, ascending and each once, and how often each occurs.
    int64_t range   # -1: of none
    int64_t n
    int64_t room
    int64_t asked   # when they were needed last
    int64_t* keys
    int64_t* counts


cdef struct Finger:
    # Where the last rank was found that was asked for, and the next one will be not far.
    int64_t range     # -1: it has to be looked for
    int64_t before    # keys in the ranges before
    int64_t at        # among the contents; -1: it has to be looked for
    int64_t below     # keys of the range that come before


cdef class Multiset:
    cdef readonly object log
    cdef readonly int64_t total     # keys, each as often as it occurs
    cdef int64_t widest             # keys in a range, at most; and
    cdef int64_t most               # changes that wait
    cdef Range* ranges
    cdef int64_t n
    cdef int64_t room
    cdef Contents* held
    cdef int holds
    cdef int64_t clock
    cdef Finger* fingers
    cdef int n_fingers
    # Changes that no run has: sorted ones, and after them keys that came and that left.
    cdef object settled
    cdef object entered
    cdef object left
    cdef int64_t* came
    cdef int64_t* went
    cdef int64_t n_came
    cdef int64_t n_went
    cdef int64_t came_room
    cdef int64_t went_room

    cdef int change(self, int64_t key, int64_t by) except -1 nogil
    cdef int64_t find(self, int64_t key) noexcept nogil
    cdef int wait_for_run(self, int64_t key, int64_t by) except -1 nogil
    cdef int have_room_for(self, int64_t by) except -1
    cdef int settle(self) except -1
    cdef int change_held(self, int64_t i, int64_t key, int64_t by) except -1 nogil
    cdef int insert_key(self, Contents* c, int64_t p, int64_t key) except -1 nogil
    cdef int split(self, int64_t i) except -1 nogil
    cdef int64_t widest_now(self) noexcept nogil
    cdef int join_small(self) except -1 nogil
    cdef void lose_fingers(self) noexcept nogil
    cdef void let_go_of(self, Contents* c) noexcept nogil
    cdef Contents* contents(self, int64_t i) except NULL nogil
    cdef Contents* spare(self) noexcept nogil
    cdef int load(self, int64_t i, Contents* c) except -1
    cdef int have_room(self, Contents* c, int64_t room) except -1 nogil
    cdef int move_to(self, Finger* f, int64_t rank) except -1 nogil
    cdef int enter_range(self, Finger* f, bint from_right) except -1 nogil
    cdef int select(self, int finger, int64_t rank, int64_t* key, int64_t* after) except -1 nogil
    cdef int64_t greatest(self, int64_t k, int64_t* keys) except -1 nogil
    cdef int begin_ranges(self, object raw) except -1
    cdef object raw_ranges(self)
