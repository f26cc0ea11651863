# cython: language_level=3
"""A queue of 8-byte or 1-byte items in one array: appended at the back, dropped at the front."""
from libc.stdint cimport int64_t, uint8_t


cdef class Vector:
    cdef object array      # the NumPy array that owns the memory
    cdef char* data
    cdef int64_t capacity
    cdef int64_t start     # live items are [start, end)
    cdef int64_t end
    cdef public int64_t first    # number of the first live item, counted from the first ever
    cdef bint wide

    cdef int reserve(self, int64_t more) except -1
    cpdef void drop_to(self, int64_t number) noexcept
    cdef int pop(self) except -1

    cdef inline int append(self, int64_t item) except -1:
        if self.end == self.capacity:
            self.reserve(1)
        if self.wide:
            (<int64_t*> self.data)[self.end] = item
        else:
            (<uint8_t*> self.data)[self.end] = <uint8_t> item
        self.end += 1
        return 0

    cdef inline void drop_one(self) noexcept:
        """Drop the oldest item, which must be there."""
        self.start += 1
        self.first += 1

    cdef inline int64_t at(self, int64_t number) noexcept:
        """The item of this number, which must be live."""
        cdef int64_t place = self.start + number - self.first
        return (<int64_t*> self.data)[place] if self.wide else (<uint8_t*> self.data)[place]

    cdef inline const char* origin(self) noexcept:
        """Where the item number 0 would lie: changes only when the items move. NULL: there are none."""
        cdef int64_t place = self.start - self.first
        if self.end == self.start:
            return NULL
        return self.data + (place * 8 if self.wide else place)
