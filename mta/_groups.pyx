"""Codes of keys that come in pieces: the same for the same key, whatever piece it is in."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np


cdef class Codes:
    """Numbers 0, 1, … for 8-byte values, in order of appearance; null has one of its own.

    O(1) a value. Memory: 8 bytes a value and 4 to 11 of a hash.

    Examples
    --------
    >>> import numpy as np
    >>> codes = Codes()
    >>> codes.of(np.array([7, 9, 7])).tolist(), codes.of(np.array([9, 1])).tolist()
    ([0, 1, 0], [1, 2])
    """

    cdef object values_array
    cdef object slots_array
    cdef int64_t[::1] value
    cdef int32_t[::1] slot
    cdef readonly int64_t n
    cdef readonly int64_t null    # the code of null; -1: none has come

    def __cinit__(self):
        self.null = -1
        self.values_array, self.slots_array = np.empty(16, np.int64), np.full(32, -1, np.int32)
        self.value, self.slot = self.values_array, self.slots_array

    def __len__(self):
        return self.n

    def of(self, const int64_t[::1] values, const uint8_t[::1] valid=None):
        """The codes of these values, of which those are null that are not valid."""
        codes = np.empty(values.shape[0], np.int64)
        cdef int64_t[::1] out = codes
        cdef int64_t i
        for i in range(values.shape[0]):
            if valid is not None and not valid[i]:
                if self.null < 0:
                    self.null = self.append(0)
                out[i] = self.null
            else:
                out[i] = self.code(values[i])
        return codes

    cdef int64_t code(self, int64_t value) except -1:
        cdef uint64_t at = self.slot_of(value)
        if self.slot[at] < 0:
            if 4 * (self.n + 1) > 3 * self.slot.shape[0]:
                self.rehash(2 * self.slot.shape[0])
                at = self.slot_of(value)
            self.slot[at] = <int32_t> self.append(value)
        return self.slot[at]

    cdef inline uint64_t slot_of(self, int64_t value) noexcept nogil:
        cdef uint64_t mask = self.slot.shape[0] - 1, x = <uint64_t> value, at
        x = (x ^ (x >> 32)) * <uint64_t> 0x9E3779B97F4A7C15
        at = (x ^ (x >> 29)) & mask
        while self.slot[at] >= 0 and self.value[self.slot[at]] != value:
            at = (at + 1) & mask
        return at

    cdef int64_t append(self, int64_t value) except -1:
        cdef int64_t room = self.value.shape[0]
        if self.n == room:
            self.values_array = np.concatenate(
                [self.values_array, np.empty(max(min(room, <int64_t> 1024), room >> 3), np.int64)]
            )
            self.value = self.values_array
        if self.n > 0x7FFFFFF0:
            raise OverflowError("more than 2^31 keys are held at once")
        self.value[self.n] = value
        self.n += 1
        return self.n - 1

    cdef int rehash(self, int64_t slots) except -1:
        cdef int64_t i
        self.slots_array = np.full(slots, -1, np.int32)
        self.slot = self.slots_array
        for i in range(self.n):
            if i != self.null:
                self.slot[self.slot_of(self.value[i])] = <int32_t> i
        return 0

    @property
    def values(self):
        """The value of every code; 0 of null."""
        return self.values_array[: self.n]

    def renumber(self, const int32_t[::1] new):
        """Give value i the code new[i], none of which is greater than i; -1: forget it."""
        cdef int64_t i, n = 0, null = self.null
        if new.shape[0] != self.n:
            raise ValueError("a new code for every old one")
        self.null = -1
        for i in range(self.n):
            if new[i] >= 0:
                self.value[new[i]] = self.value[i]
                n += 1
                if i == null:
                    self.null = new[i]
        self.n = n
        self.values_array = self.values_array[: n + 16].copy()
        self.value = self.values_array
        slots = 32
        while 2 * slots < 3 * n:
            slots *= 2
        self.rehash(slots)

    @property
    def nbytes(self):
        """Bytes held."""
        return self.values_array.nbytes + self.slots_array.nbytes
