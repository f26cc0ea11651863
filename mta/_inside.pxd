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
    ITEM = 3        # what has no 8-byte form


cdef class Known:
    cdef int64_t code
    cdef int64_t rows      # that hold it


cdef class RawColumn:
    cdef readonly str name
    cdef bint numeric      # it has to hold numbers: `values` are used; else they tell NaN, 1, from 0
    cdef bint taken        # its values are answers or are compared: `objects` are used,
    cdef bint coded        # and, where they are told from each other, `codes`
    cdef object check      # None, or it may hold items: what is wrong with one, or None
    cdef dict items        # by code
    cdef bint truths       # it has to hold booleans
    cdef bint skipped      # an aggregate skips its NaN: `clean` is used
    cdef int type
    cdef int64_t front     # of the window; the vectors below may begin before it
    cdef Vector values
    cdef Vector clean      # the same with 0 for NaN; None until the first NaN
    cdef list objects      # where `taken`; None where they have been let go
    cdef int64_t objects_first    # row number of the first one in the list
    cdef Vector codes      # of the objects: equal for equal ones
    cdef dict known        # Known by object
    cdef int64_t next_code
    cdef object now_object
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
    cdef int make_clean(self) except -1
    cdef int drop_to(self, int64_t front, int64_t kept) except -1
    cdef int drop_objects(self, int64_t kept) except -1
    cdef list parts(self)
    cdef int load(self, list parts, int64_t first, int64_t rows) except -1
    cdef int read_number(self, value, int64_t row) except -1
    cdef int read_item(self, value, int64_t row) except -1
    cdef int check_type(self, int64_t row) except -1
    cdef int read_int(self, value, int64_t row) except -1
    cdef int keep_object(self, value) except -1
    cdef int drop_object(self, value) except -1
    cdef bint is_nan_object(self, value) except -1
    cdef object object_bytes(self)
    cdef object read_objects(self, data, rows)

    cdef inline object object_at(self, int64_t row):
        return self.objects[row - self.objects_first]

    cdef inline Vector values_for(self, bint skip_nan):
        """The values as who skips NaN, or does not, reads them."""
        return self.clean if skip_nan and self.clean is not None else self.values

    cdef inline bint is_valid(self, int64_t row, bint skip_nan) except -1:
        cdef Cell cell
        if self.valid is not None and not self.valid.at(row):
            return False
        if skip_nan and self.type == REAL:
            cell.i = self.values.at(row)
            return not isnan(cell.f)
        return self.numeric or not skip_nan or not self.values.at(row)

    cdef inline bint is_now_valid(self, bint skip_nan) except -1:
        if not self.now_valid:
            return False
        if skip_nan and self.now_type == REAL:
            return not isnan(self.now.f)
        return self.numeric or not skip_nan or not self.now.i


cdef class InputState:
    cdef RawColumn column  # the first, and
    cdef list others       # None: it is the only one
    cdef bint skip_nan
    cdef Vector mask       # per row inside: whether it counts; beside `before`
    cdef int64_t seen      # non-null values ever
    cdef Vector before     # per row inside: `seen` when it came; None until the first null

    cdef int append(self, int64_t row) except -1
    cdef int retract(self) except -1
    cdef int drop_to(self, int64_t kept) except -1
    cdef int64_t count(self, int64_t front, int64_t to, int64_t back) noexcept
    cdef int load(self, int64_t front, int64_t back) except -1

    cdef bint others_valid(self) except -1

    cdef inline bint now_valid(self) except -1:
        if not self.column.is_now_valid(self.skip_nan):
            return False
        return self.others is None or self.others_valid()


cdef class Times:
    cdef readonly str on
    cdef object range
    cdef bint is_ticks     # integers; else times in nanoseconds
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
