# cython: language_level=3
"""Arrays as plain memory, where every push hands over a few: typed memoryviews cost three times as
much, as they compare the types item by item."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t


cdef inline void* items_of(array, int width, int64_t* n, bint written=False) except? NULL:
    """Where the items of an array lie, which are so many bytes each, and how many there are. NULL:
    there are none. It is good as long as the array is there.

    written : something will be written to them
    """
    cdef Py_buffer raw
    PyObject_GetBuffer(array, &raw, PyBUF_WRITABLE if written else PyBUF_SIMPLE)
    cdef void* items = raw.buf if raw.len else NULL
    cdef Py_ssize_t itemsize = raw.itemsize
    n[0] = raw.len // width
    PyBuffer_Release(&raw)
    if itemsize != width:
        raise ValueError(f"array: items of {width} bytes are needed, not of {itemsize}")
    return items
