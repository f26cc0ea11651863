# cython: language_level=3
"""What a pushed window keeps of its rows; see ``_inside.pyx``."""
from libc.math cimport isnan
from libc.stdint cimport int64_t

from mta._monoids cimport Cell
from mta._vector cimport Vector


cdef enum:
    UNKNOWN = 0     # no value seen yet
    INTEGER = 1
    REAL = 2


cdef class RawColumn:
    cdef readonly str name
    cdef int type
    cdef Vector values
    cdef Vector valid      # None until the first null
    cdef Cell now          # of the row being inserted
    cdef int now_type
    cdef bint now_valid

    cdef int read(self, value, int64_t row) except -1
    cdef object refuse(self, int64_t row, str reason)
    cdef int check_change(self, int64_t row) except -1
    cdef int settle_type(self) except -1
    cdef int append(self) except -1
    cdef int retract(self) except -1
    cdef int drop_to(self, int64_t front) except -1
    cdef list parts(self)
    cdef int load(self, list parts, int64_t first, int64_t rows) except -1

    cdef inline bint is_valid(self, int64_t row, bint skip_nan) noexcept:
        cdef Cell cell
        if self.valid is not None and not self.valid.at(row):
            return False
        if skip_nan and self.type == REAL:
            cell.i = self.values.at(row)
            return not isnan(cell.f)
        return True


cdef class InputState:
    cdef RawColumn column
    cdef bint skip_nan
    cdef int64_t seen      # non-null values ever
    cdef Vector before     # per row inside: `seen` when it came; None until the first null

    cdef int append(self, int64_t row) except -1
    cdef int retract(self) except -1
    cdef int drop_to(self, int64_t front) except -1
    cdef int64_t count(self, int64_t front, int64_t to, int64_t back) noexcept
    cdef int load(self, int64_t front, int64_t back) except -1

    cdef inline bint now_valid(self) noexcept:
        return self.column.now_valid and not (
            self.skip_nan and self.column.type == REAL and isnan(self.column.now.f))


cdef class Times:
    cdef readonly str on
    cdef object range
    cdef int64_t span
    cdef Vector ticks
    cdef int64_t now       # of the row being inserted
    cdef int64_t newest    # of the newest row ever inside
    cdef bint aware        # they have a zone

    cdef int read(self, value, int64_t row) except -1
    cdef object read_ticks(self, value, int64_t row)
    cdef object read_stamp(self, value, int64_t row)
    cdef object refuse(self, value, int64_t row, str reason)
    cdef int append(self) except -1
    cdef int64_t first_inside(self, int64_t front, int64_t back) noexcept
    cdef int load(self, bytes ticks, int64_t first, int64_t newest, bint aware) except -1
