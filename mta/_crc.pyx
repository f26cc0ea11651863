# distutils: depends = mta/_crc.h
"""The checksum of blocks: zlib's CRC-32, several times as fast where the processor helps."""
from libc.stdint cimport uint8_t, uint32_t

from zlib import crc32 as zlib_crc32

cdef extern from "_crc.h":
    bint IS_FAST "MTA_CRC_IS_FAST"
    uint32_t fast_crc32 "mta_crc32"(uint32_t crc, const uint8_t* data, size_t n) nogil

cdef enum:
    LONG = 1 << 18    # bytes that are worth letting other threads run
    SHORT = 64


def crc32(const uint8_t[::1] data, uint32_t value=0):
    """What ``zlib.crc32`` gives.

    data : bytes, or another buffer of them
    value : that of the bytes before these
    """
    cdef size_t n = data.shape[0]
    if n < SHORT or not IS_FAST:
        return zlib_crc32(data, value)
    if n < LONG:
        return fast_crc32(value, &data[0], n)
    with nogil:
        value = fast_crc32(value, &data[0], n)
    return value
