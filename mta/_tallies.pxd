# cython: language_level=3
"""How often every value occurs inside a window that slides; see ``_tallies.pyx``."""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from mta._core cimport CHUNK, MAX_OUTPUTS
from mta._kernel cimport Counter, Kernel, Lists, Scan


cdef enum:
    FAN_BITS = 4
    FAN = 16           # rows or nodes that one node stands for
    MAX_HEIGHT = 9     # 16^8 is more rows than a window may hold


cdef struct Slot:
    uint32_t row    # the last row that had the code, counted from `base`; 0: never used
    uint32_t tag    # the upper half of the code's hash


cdef struct Codes:
    # Code -> the last row that had it. What has left is still there, but as nothing: its row lies
    # before the window. It goes when the table is made anew.
    Slot* slots
    int64_t capacity    # a power of two
    int64_t used        # slots that are or were used
    int64_t most        # of them, before the table is made anew
    int64_t base        # the row before the first one that a slot can tell
    int shift           # tag >> shift is where to look first


cdef struct Links:
    uint32_t next    # place of the next row of the same code; of the last one: of the first
    uint32_t last    # of the first row: place of the last one


cdef struct Leader:
    int64_t row      # the first one inside that has the code
    int64_t count


cdef struct Gap:
    int64_t row      # [row, stop) without a leader
    int64_t stop
    Leader best


cdef struct Tally:
    Codes codes
    int64_t first       # rows [first, end) are inside
    int64_t end
    int64_t distinct    # codes inside
    # Rings that are addressed by row number: row r has the place r & mask.
    int64_t capacity    # a power of two
    uint8_t* again      # where only `distinct` is asked for: 1 if the code (or no code) comes later
    Links* links
    # counts[0]: how many rows have the code of this one, where it is the first; else 0.
    # counts[l]: the greatest of 16^l rows.
    uint32_t* counts[MAX_HEIGHT]
    int64_t masks[MAX_HEIGHT]
    int top
    # The most frequent codes, in order. Any that is not among them comes after them all.
    Leader* leaders
    int64_t n
    int64_t room        # 0: only `distinct` is asked for
    int64_t lost        # where there are none: no code occurs more often than this
    Gap* gaps


cdef class TallyKernel(Kernel):
    cdef Tally tally
    cdef int n
    cdef int64_t most[MAX_OUTPUTS]     # how many codes answer k lists; 0: mode, -1: count_distinct
    cdef int64_t* out[MAX_OUTPUTS]
    cdef int64_t deepest               # the longest list
    cdef int64_t sizes[CHUNK]          # lists of the chunk at hand, one after the other in `listed`
    cdef int64_t listed_n
    cdef int64_t listed_room
    cdef int64_t* listed

    cdef int note_leaders(self, int64_t i) except -1 nogil
    cdef int write_all_lists(self, int64_t start, int64_t n) except -1 with gil
    cdef int write_lists(self, Lists lists, int64_t most, int64_t start, int64_t n) except -1 nogil
