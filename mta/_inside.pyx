"""What a pushed window keeps of its rows: values as pushed, counts of non-null ones, times.

Each reads a Python value into `now` first, changing nothing else, and takes it in by `append`; so a
row of which one value can't be read has no effect.
"""
from cpython.datetime cimport PyDateTime_Check, import_datetime
from libc.stdint cimport INT64_MIN

import datetime as dt
import json
import operator
from base64 import b64decode, b64encode

import numpy as np

from mta.errors import DataError, SnapshotError

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* beyond) except? -1

import_datetime()

FLOATS = (float, np.floating)
INTEGERS = (int, np.integer, np.bool_)
NUMPY_SCALARS = (np.number, np.bool_, np.str_)
NAN = object()    # stands for every NaN among objects
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


cdef class Known:
    """An object inside."""


cdef class RawColumn:
    """The values of one column inside the window: ints, or floats from the first float on; and,
    where answers are taken from it, the objects themselves.

    Rows that have left stay for as long as `drop_to` is told, for those who still have to let them go.

    numeric, taken, truths, skipped, coded : what its aggregates need, see ``_inside.pxd``
    check : a function, where values may be items (texts, bytes), or have to be where `numeric` is
        false: what is wrong with one, or None. A column holds either numbers or items
    """

    def __cinit__(self, str name, bint numeric=True, bint taken=False, bint truths=False,
                  bint skipped=False, bint coded=False, check=None):
        self.name = name
        self.numeric = numeric
        self.taken = taken
        self.truths = truths
        self.skipped = skipped
        self.coded = coded
        self.check = check
        self.items = {}
        self.values = Vector()
        self.codes = Vector()
        self.objects = []
        self.known = {}

    cdef int read(self, value, int64_t row) except -1:
        self.now_object = value
        if type(value) is float:    # what comes most often
            if self.numeric:
                return self.read_number(value, row)
            if self.check is not None:
                return self.read_item(value, row)
            self.now.i = isnan(<double> value)
            self.now_type = INTEGER
            self.now_valid = True
            return 0
        if isinstance(value, NUMPY_SCALARS):
            value = self.now_object = value.item()
        if self.check is not None:
            if isinstance(value, (str, bytes)) or not (self.numeric or is_null(value)):
                return self.read_item(value, row)
        if self.numeric or self.check is not None:
            return self.read_number(value, row)
        self.now.i = self.is_nan_object(value)
        self.now_type = INTEGER
        self.now_valid = not is_null(value)
        if self.now_valid:
            try:
                hash(value)
            except TypeError:
                raise self.refuse(row, f"a {type(value).__name__} can't be told from others") from None
        return 0

    cdef int read_item(self, value, int64_t row) except -1:
        reason = self.check(value)
        if reason is not None:
            raise self.refuse(row, reason)
        self.now.i = 0
        self.now_type = ITEM
        self.now_valid = True
        return self.check_type(row)

    cdef int check_type(self, int64_t row) except -1:
        """Items and numbers do not mix."""
        if self.type != UNKNOWN and (self.type == ITEM) != (self.now_type == ITEM):
            held = "numbers" if self.type != ITEM else "texts or bytes"
            raise self.refuse(row, f"it holds {held}, and {self.now_object!r} is none")
        return 0

    cdef int read_number(self, value, int64_t row) except -1:
        self.now.i = 0
        self.now_valid = True
        if type(value) is float:
            self.now_type = REAL
            self.now.f = value
        elif type(value) is int:
            self.read_int(value, row)
        elif is_null(value):
            self.now_type = self.type
            self.now_valid = False
        elif isinstance(value, FLOATS):
            self.read_number(float(value), row)
        elif isinstance(value, INTEGERS):
            self.read_int(value, row)
        elif hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
            kind = type(value).__name__
            raise self.refuse(row, f"a {kind} is not a number; rows at once come as NumPy arrays")
        else:
            raise self.refuse(row, f"{value!r} is not a number")
        if self.truths and self.now_valid and not isinstance(value, bool):
            raise self.refuse(row, f"{value!r} is not a boolean")
        self.check_type(row)
        if self.now_type != self.type and self.type != UNKNOWN:
            self.check_change(row)
        return 0

    cdef int read_int(self, value, int64_t row) except -1:
        cdef int beyond = 0
        self.now_type = INTEGER
        self.now.i = PyLong_AsLongLongAndOverflow(value, &beyond)
        if beyond:
            raise self.refuse(row, f"{value} does not fit in 64 bits")
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
        values = self.values.view()[self.front - self.values.first:]
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
        if self.skipped and self.now_type == REAL and isnan(self.now.f) and self.clean is None:
            self.make_clean()
        self.values.append(self.now.i)
        if self.clean is not None:
            self.clean.append(0 if isnan(self.now.f) else self.now.i)
        if self.valid is not None:
            self.valid.append(self.now_valid)
        if self.taken:
            self.keep_object(self.now_object if self.now_valid else None)
        return 0

    cdef int make_clean(self) except -1:
        self.clean = Vector(True, self.values.first)
        values = self.values.view().view(np.float64)
        self.clean.extend(np.where(np.isnan(values), 0.0, values).view(np.int64))
        return 0

    cdef int keep_object(self, value) except -1:
        """Append an object and, where they are told apart, its code."""
        cdef Known entry
        self.objects.append(value)
        if not self.coded:
            return 0
        key = NAN if self.is_nan_object(value) else value
        entry = self.known.get(key)
        if entry is None:
            entry = self.known[key] = Known()
            entry.code = self.next_code
            self.next_code += 1
            if self.type == ITEM:
                self.items[entry.code] = value
        entry.rows += 1
        self.codes.append(entry.code)
        return 0

    cdef int drop_object(self, value) except -1:
        """An object has left: its code is forgotten with its last row."""
        cdef Known entry
        if not self.coded:
            return 0
        key = NAN if self.is_nan_object(value) else value
        entry = self.known[key]
        entry.rows -= 1
        if not entry.rows:
            del self.known[key]
            self.items.pop(entry.code, None)
        return 0

    cdef bint is_nan_object(self, value) except -1:
        if type(value) is float:
            return isnan(<double> value)
        return isinstance(value, FLOATS) and value != value

    cdef int retract(self) except -1:
        self.values.pop()
        if self.clean is not None:
            self.clean.pop()
        if self.valid is not None:
            self.valid.pop()
        if self.taken:
            self.drop_object(self.objects.pop())
            if self.coded:
                self.codes.pop()
        return 0

    cdef int drop_to(self, int64_t front, int64_t kept) except -1:
        """The window begins at `front` now; the rows from `kept` on stay."""
        self.front = front
        if self.taken:
            self.drop_objects(kept)
            if self.coded:
                self.codes.drop_to(kept)
        self.values.drop_to(kept)
        if self.clean is not None:
            self.clean.drop_to(kept)
        if self.valid is not None:
            self.valid.drop_to(kept)
        return 0

    cdef int drop_objects(self, int64_t kept) except -1:
        """They leave a gap at the front of the list, which is closed when it is half of it: O(1)
        amortised."""
        cdef int64_t place
        for place in range(self.values.first - self.objects_first, kept - self.objects_first):
            self.drop_object(self.objects[place])
            self.objects[place] = None
        if 2 * (kept - self.objects_first) > len(self.objects):
            del self.objects[:kept - self.objects_first]
            self.objects_first = kept
        return 0

    cdef list parts(self):
        """The column as the parts of a snapshot."""
        cdef int64_t gone = self.front - self.values.first
        return [
            bytes([self.type, self.valid is not None]),
            self.values.view()[gone:].astype("<i8").tobytes(),
            b"" if self.valid is None else self.valid.view()[gone:].tobytes(),
            self.object_bytes(),
        ]

    cdef object object_bytes(self):
        """The objects as JSON, which holds no code; bytes as a list of one text."""
        objects = self.objects[self.front - self.objects_first:] if self.taken else []
        plain = [[b64encode(x).decode()] if isinstance(x, bytes) else x for x in objects]
        try:
            return json.dumps(plain).encode() if self.taken else b""
        except TypeError:
            odd = next(x for x in plain if not isinstance(x, (str, list, int, float, type(None))))
            raise SnapshotError(f"to_bytes: column {self.name!r} holds a {type(odd).__name__}; a "
                                "snapshot takes numbers, texts, bytes, booleans and None") from None

    cdef int load(self, list parts, int64_t first, int64_t rows) except -1:
        head, values, valid, objects = parts
        if (len(head) != 2 or head[0] > ITEM or len(values) != 8 * rows
                or len(valid) != (rows if head[1] else 0)):
            raise SnapshotError(f"snapshot: damaged (column {self.name!r} does not fit)")
        self.type = head[0]
        self.front = self.objects_first = first
        self.values = filled(values, first)
        if self.skipped and self.type == REAL and np.isnan(self.values.view().view(np.float64)).any():
            self.make_clean()
        self.valid = filled(valid, first, False) if head[1] else None
        self.codes = Vector(True, first)
        for value in self.read_objects(objects, rows):
            self.keep_object(value)
        return 0

    cdef object read_objects(self, data, rows):
        """What `object_bytes` wrote."""
        try:
            values = [b64decode(x[0], validate=True) if isinstance(x, list) else x
                      for x in (json.loads(data) if self.taken else [])]
        except (ValueError, TypeError, IndexError):
            values = None
        plain = isinstance(values, list) and all(
            x is None or isinstance(x, (str, bytes, int, float)) for x in values)
        if not plain or len(values) != (rows if self.taken else 0):
            raise SnapshotError(f"snapshot: damaged (column {self.name!r} does not fit)")
        return values


cdef bint is_null(value) except -1:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


cdef class InputState:
    """One or more columns as some aggregates see them, with the number of rows that count (where
    none is null) before every row."""

    def __cinit__(self, list columns, bint skip_nan):
        self.column = columns[0]
        self.others = columns[1:] or None
        self.skip_nan = skip_nan

    cdef bint others_valid(self) except -1:
        cdef RawColumn column
        for column in self.others:
            if not column.is_now_valid(self.skip_nan):
                return False
        return True

    cdef int append(self, int64_t row) except -1:
        cdef bint valid = self.now_valid()
        if not valid and self.before is None:
            # So far every row was a value: row r had r before it.
            self.before = Vector(True, self.column.values.first)
            self.before.extend(np.arange(self.column.values.first, row))
            self.mask = Vector(False, self.column.values.first)
            self.mask.extend(np.ones(row - self.column.values.first, np.uint8))
            self.seen = row
        if self.before is not None:
            self.before.append(self.seen)
            self.mask.append(valid)
            self.seen += valid
        return 0

    cdef int retract(self) except -1:
        if self.before is not None:
            self.seen = self.before.at(self.before.first + len(self.before) - 1)
            self.before.pop()
            self.mask.pop()
        return 0

    cdef int drop_to(self, int64_t kept) except -1:
        if self.before is not None:
            self.before.drop_to(kept)
            self.mask.drop_to(kept)
        return 0

    cdef int64_t count(self, int64_t front, int64_t to, int64_t back) noexcept:
        """Non-null values in rows [front, to) of a window that ends at back."""
        if self.before is None:
            return to - front
        cdef int64_t start = self.before.at(front) if front < back else self.seen
        return (self.before.at(to) if to < back else self.seen) - start

    cdef int load(self, int64_t front, int64_t back) except -1:
        """From the column's values. Counts are differences, so they may start from the front."""
        cdef RawColumn column
        cdef int64_t row
        self.before = self.mask = None
        self.seen = back
        valid = np.ones(back - front, bool)
        for column in [self.column, *(self.others or ())]:
            valid &= np.array([column.is_valid(row, self.skip_nan) for row in range(front, back)], bool)
        if not valid.all():
            self.mask = Vector(False, front)
            self.mask.extend(valid)
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
        self.is_ticks = range.ticks
        self.ticks = Vector()

    cdef int read(self, value, int64_t row) except -1:
        cdef int64_t now
        cdef int beyond = 1
        if value is None:
            raise DataError(f"row {row}: no time; give it as {self.on!r}")
        if self.is_ticks and type(value) is int:
            now = PyLong_AsLongLongAndOverflow(value, &beyond)
        if beyond:
            now = self.read_ticks(value, row) if self.is_ticks else self.read_stamp(value, row)
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
