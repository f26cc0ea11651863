"""Vector: what a window keeps of its rows, in numbers that are never used twice."""
from cpython.buffer cimport (PyBUF_STRIDES, PyBuffer_Release, PyObject_CheckBuffer,
                             PyObject_GetBuffer)
from libc.string cimport memcpy, memmove

import numpy as np

cdef enum:
    SPARE = 16
    MANY = 1024    # items that there may be room for
    AHEAD = 128    # bytes before the items: kernels of a batch read whole blocks of 16 rows


cdef class Vector:
    """A queue of int64 (or uint8) items with absolute numbers.

    Appending and dropping cost O(1) amortised; the live items are always one array.

    Examples
    --------
    >>> times = Vector()
    >>> times.extend(np.array([10, 20, 30]))
    >>> times.drop_to(1)
    >>> times.view().tolist(), times.first
    ([20, 30], 1)
    """

    def __cinit__(self, bint wide=True, int64_t first=0):
        self.wide = wide
        self.first = first
        self.array = np.empty(0, np.int64 if wide else np.uint8)

    def __len__(self):
        return self.end - self.start

    cdef int reserve(self, int64_t more) except -1:
        """Make room: move the live items to the front of this array or of one twice as large."""
        cdef int64_t live = self.end - self.start
        cdef int width = 8 if self.wide else 1
        # Moving within the array only pays where at least half of it is free. With some items to
        # spare, a queue of constant length does so ever after.
        if 2 * (live + more) > self.capacity:
            return move_to(self, 2 * (live + more) + SPARE)
        memmove(self.data, self.data + self.start * width, live * width)
        self.start = 0
        self.end = live
        return 0

    def extend(self, items):
        """Append an array: 8-byte items of any type as they are, others as integers."""
        if take_items(self, items):
            return
        items = np.ascontiguousarray(items)
        if items.itemsize != self.array.itemsize:
            items = items.astype(self.array.dtype)
        if not take_items(self, items):
            raise ValueError("items: an array of one dimension is needed")

    def make_room(self, int64_t more, int64_t spare):
        """Have room for so many items more; where there is none, also for some to spare, and not for
        as many again."""
        cdef int64_t live = self.end - self.start
        if self.end + more > self.capacity:
            move_to(self, live + more + spare + SPARE)

    def shrink(self, int64_t times=4):
        """Give room back, where there is for so many times as many items; whether it was so."""
        cdef int64_t live = self.end - self.start
        if self.capacity <= times * live + MANY:
            return False
        move_to(self, live + SPARE)
        return True

    cdef int pop(self) except -1:
        """Take the newest item back."""
        if self.end == self.start:
            raise IndexError("nothing to take back")
        self.end -= 1
        return 0

    def take_back(self, int64_t n):
        """Take the n newest items back."""
        if not 0 <= n <= self.end - self.start:
            raise IndexError(f"n: {n} of {self.end - self.start} items")
        self.end -= n

    def move_last(self, int64_t place):
        """Put the newest item at this place of the view; those from there on move back by one."""
        cdef int64_t last = self.end - self.start - 1
        cdef int width = 8 if self.wide else 1
        cdef char* at = self.data + (self.start + place) * width
        cdef int64_t item = 0
        if not 0 <= place <= last:
            raise IndexError(f"place: {place} of {last + 1} items")
        memcpy(&item, self.data + (self.end - 1) * width, width)
        memmove(at + width, at, (last - place) * width)
        memcpy(at, &item, width)

    def move_to_last(self, int64_t place):
        """Undo `move_last`."""
        cdef int64_t last = self.end - self.start - 1
        cdef int width = 8 if self.wide else 1
        cdef char* at = self.data + (self.start + place) * width
        cdef int64_t item = 0
        if not 0 <= place <= last:
            raise IndexError(f"place: {place} of {last + 1} items")
        memcpy(&item, at, width)
        memmove(at, at + width, (last - place) * width)
        memcpy(self.data + (self.end - 1) * width, &item, width)

    def keep(self, const int64_t[::1] places):
        """Only the items at these places of the view, which ascend; they are numbered anew."""
        cdef int64_t k
        for k in range(places.shape[0]):
            if self.wide:
                (<int64_t*> self.data)[self.start + k] = (<int64_t*> self.data)[self.start + places[k]]
            else:
                self.data[self.start + k] = self.data[self.start + places[k]]
        self.end = self.start + places.shape[0]

    cpdef void drop_to(self, int64_t number) noexcept:
        """Drop every item before `number` (all, where it lies beyond them)."""
        cdef int64_t n = min(max(number - self.first, 0), self.end - self.start)
        self.start += n
        self.first += n

    @property
    def nbytes(self):
        """Bytes held, with the room for items to come."""
        return self.capacity * (8 if self.wide else 1)

    def view(self):
        """The live items, without a copy. Appending or dropping leaves the view as it is."""
        return self.array[self.start:self.end]


cdef int move_to(Vector vector, int64_t capacity) except -1:
    """Have the live items in an array of so many."""
    cdef int64_t live = vector.end - vector.start
    cdef int width = 8 if vector.wide else 1
    cdef char[::1] raw
    room = np.empty(capacity + AHEAD // width, vector.array.dtype)[AHEAD // width:]
    raw = room.view(np.int8)
    memcpy(&raw[0], vector.data + vector.start * width, live * width)
    vector.array, vector.data, vector.capacity = room, &raw[0], capacity
    vector.start, vector.end = 0, live
    return 0


cdef bint take_items(Vector vector, items) except -1:
    """Append the items of an array in one piece whose items are as wide; False: it is none."""
    cdef Py_buffer raw
    cdef int width = 8 if vector.wide else 1
    cdef int64_t n
    if not PyObject_CheckBuffer(items):
        return False
    PyObject_GetBuffer(items, &raw, PyBUF_STRIDES)
    try:
        if raw.ndim != 1 or raw.itemsize != width or (
            raw.strides[0] != width and raw.len > width
        ):
            return False
        n = raw.len // width
        if vector.end + n > vector.capacity:
            vector.reserve(n)
        if n:
            memcpy(vector.data + vector.end * width, raw.buf, raw.len)
        vector.end += n
        return True
    finally:
        PyBuffer_Release(&raw)
