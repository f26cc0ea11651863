"""What a pushed window keeps of its rows: values as pushed, counts of non-null ones, times.

Each reads a Python value into `now` first, changing nothing else, and takes it in by `append`; so a
row of which one value can't be read has no effect.
"""
from cpython.datetime cimport PyDateTime_Check, import_datetime
from libc.stdint cimport INT64_MIN

import datetime as dt
import operator

import numpy as np

from mta.errors import DataError, SnapshotError

import_datetime()

EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


cdef class RawColumn:
    """The values of one column inside the window: ints, or floats from the first float on."""

    def __cinit__(self, str name):
        self.name = name
        self.values = Vector()

    cdef int read(self, value, int64_t row) except -1:
        self.now.i = 0
        self.now_valid = True
        if type(value) is float:
            self.now_type = REAL
            self.now.f = value
        elif value is None or type(value).__name__ in ("NAType", "NaTType"):
            self.now_type = self.type
            self.now_valid = False
        elif isinstance(value, (float, np.floating)):
            self.read(float(value), row)
        elif isinstance(value, (int, np.integer, np.bool_)):
            if not -2**63 <= value < 2**63:
                raise self.refuse(row, f"{value} does not fit in 64 bits")
            self.now_type = INTEGER
            self.now.i = value
        else:
            raise self.refuse(row, f"{value!r} is not a number")
        if self.now_type != self.type and self.type != UNKNOWN:
            self.check_change(row)
        return 0

    cdef object refuse(self, int64_t row, str reason):
        return DataError(f"row {row}: column {self.name!r}: {reason}")

    cdef int check_change(self, int64_t row) except -1:
        """An int among floats, or the first float among ints: both must be exact."""
        cdef int64_t value = self.now.i
        if self.type == REAL:
            self.now.f = <double> value
            self.now_type = REAL
            if not -2.0**63 <= self.now.f < 2.0**63 or <int64_t> self.now.f != value:
                raise self.refuse(row, f"it holds floats, and none is {value} exactly")
            return 0
        values = self.values.view()
        # A double of 2^63 does not convert back: what comes out is not the int it stood for.
        inexact = values[values.astype(np.float64).astype(np.int64) != values]
        if len(inexact):
            raise self.refuse(row, f"a float where it holds {inexact[0]}, which no float is exactly")
        return 0

    cdef int settle_type(self) except -1:
        """Take on the type of the row just read."""
        if self.type == INTEGER:
            values = self.values.view()
            values[:] = values.astype(np.float64).view(np.int64)
        self.type = self.now_type
        return 0

    cdef int append(self) except -1:
        if not self.now_valid and self.valid is None:
            self.valid = Vector(False, self.values.first)
            self.valid.extend(np.ones(len(self.values), np.uint8))
        self.values.append(self.now.i)
        if self.valid is not None:
            self.valid.append(self.now_valid)
        return 0

    cdef int retract(self) except -1:
        self.values.pop()
        if self.valid is not None:
            self.valid.pop()
        return 0

    cdef int drop_to(self, int64_t front) except -1:
        self.values.drop_to(front)
        if self.valid is not None:
            self.valid.drop_to(front)
        return 0

    cdef list parts(self):
        """The column as the parts of a snapshot."""
        return [
            bytes([self.type, self.valid is not None]),
            self.values.view().astype("<i8").tobytes(),
            b"" if self.valid is None else self.valid.view().tobytes(),
        ]

    cdef int load(self, list parts, int64_t first, int64_t rows) except -1:
        head, values, valid = parts
        if (len(head) != 2 or head[0] > REAL or len(values) != 8 * rows
                or len(valid) != (rows if head[1] else 0)):
            raise SnapshotError(f"snapshot: damaged (column {self.name!r} does not fit)")
        self.type = head[0]
        self.values = filled(values, first)
        self.valid = filled(valid, first, False) if head[1] else None
        return 0


cdef class InputState:
    """A column as some aggregates see it, with the number of non-null values before every row."""

    def __cinit__(self, RawColumn column, bint skip_nan):
        self.column = column
        self.skip_nan = skip_nan

    cdef int append(self, int64_t row) except -1:
        cdef bint valid = self.now_valid()
        if not valid and self.before is None:
            # So far every row was a value: row r had r before it.
            self.before = Vector(True, self.column.values.first)
            self.before.extend(np.arange(self.column.values.first, row))
            self.seen = row
        if self.before is not None:
            self.before.append(self.seen)
            self.seen += valid
        return 0

    cdef int retract(self) except -1:
        if self.before is not None:
            self.seen = self.before.at(self.before.first + len(self.before) - 1)
            self.before.pop()
        return 0

    cdef int drop_to(self, int64_t front) except -1:
        if self.before is not None:
            self.before.drop_to(front)
        return 0

    cdef int64_t count(self, int64_t front, int64_t to, int64_t back) noexcept:
        """Non-null values in rows [front, to) of a window that ends at back."""
        if self.before is None:
            return to - front
        cdef int64_t start = self.before.at(front) if front < back else self.seen
        return (self.before.at(to) if to < back else self.seen) - start

    cdef int load(self, int64_t front, int64_t back) except -1:
        """From the column's values. Counts are differences, so they may start from the front."""
        cdef int64_t row
        self.before = None
        self.seen = back
        valid = np.array([self.column.is_valid(row, self.skip_nan) for row in range(front, back)], bool)
        if not valid.all():
            self.before = Vector(True, front)
            self.before.extend(front + np.cumsum(valid) - valid)
            self.seen = front + valid.sum()
        return 0


cdef class Times:
    """The times of the rows inside, and the range that they may span."""

    def __cinit__(self, str on, range):
        self.on = on
        self.range = range
        self.span = range.amount
        self.ticks = Vector()

    cdef int read(self, value, int64_t row) except -1:
        if value is None:
            raise DataError(f"row {row}: no time; give it as {self.on!r}")
        now = self.read_ticks(value, row) if self.range.ticks else self.read_stamp(value, row)
        if row > 0 and now < self.newest:
            raise self.refuse(value, row, "is before the row above it; a window takes rows in order "
                              "of time (mta.rolling sorts them)")
        self.now = now
        return 0

    cdef object read_ticks(self, value, int64_t row):
        try:
            ticks = operator.index(value)
        except TypeError:
            raise self.refuse(value, row, f"a range of {self.range} needs integer times") from None
        if not -2**63 <= ticks < 2**63:
            raise self.refuse(value, row, "does not fit in 64 bits")
        return ticks

    cdef object read_stamp(self, value, int64_t row):
        """Nanoseconds since the epoch of a datetime, pandas.Timestamp or numpy.datetime64."""
        cdef bint aware = False
        stamp = None
        if isinstance(value, np.datetime64) and not np.isnat(value):
            stamp = int(value.astype("M8[ns]").astype(np.int64))
            if np.datetime64(stamp, "ns") != value:
                stamp = None    # beyond nanoseconds in 64 bits
        elif PyDateTime_Check(value) and value == value:
            aware = value.tzinfo is not None
            delta = value - (EPOCH_UTC if aware else EPOCH)
            stamp = (delta.days * 86400 + delta.seconds) * 10**9 + delta.microseconds * 1000
            stamp += getattr(value, "nanosecond", 0)
        if stamp is None or not -2**63 <= stamp < 2**63:
            raise self.refuse(value, row, f"a range of {self.range} needs a datetime between the "
                              "years 1678 and 2261 (integer times go with ranges like '60i')")
        if row > 0 and aware != self.aware:
            raise self.refuse(value, row, "times with and without a zone can't be compared")
        self.aware = aware
        return stamp

    cdef object refuse(self, value, int64_t row, str reason):
        return DataError(f"row {row}: {self.on}={value!r}: {reason}")

    cdef int append(self) except -1:
        self.ticks.append(self.now)
        self.newest = self.now
        return 0

    cdef int64_t first_inside(self, int64_t front, int64_t back) noexcept:
        """The first of the rows [front, back) that stays once the row just read is inside."""
        cdef int64_t middle, edge
        if self.now < INT64_MIN + self.span:
            return front
        edge = self.now - self.span
        # Usually none goes; else the first that stays is found by bisection.
        if front == back or self.ticks.at(front) > edge:
            return front
        front += 1
        while front < back:
            middle = (front + back) // 2
            if self.ticks.at(middle) > edge:
                back = middle
            else:
                front = middle + 1
        return front

    cdef int load(self, bytes ticks, int64_t first, int64_t newest, bint aware) except -1:
        self.ticks = filled(ticks, first)
        self.newest = newest
        self.aware = aware
        return 0


cdef Vector filled(bytes data, int64_t first, bint wide=True):
    """A vector of the items in `data`, the first of them numbered `first`."""
    cdef Vector vector = Vector(wide, first)
    vector.extend(np.frombuffer(data, "<i8" if wide else np.uint8))
    return vector
