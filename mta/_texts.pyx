"""Numbers for texts, straight from Arrow's buffers."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

cdef extern from "_texts.h" nogil:
    ctypedef struct Texts "mta_texts":
        int64_t found
        int64_t of_null
    ctypedef struct TextArray "mta_text_array":
        int width
        const char* index
        const char** data
        const uint8_t* valid
        int64_t first
    bint number_texts "mta_number_texts"(Texts* t, const TextArray* from_, int64_t n, int64_t* out)
    void texts_free "mta_texts_free"(Texts* t)


def text_codes(parts):
    """Dense numbers of texts or byte strings, in order of appearance: (codes, how many).

    parts : arrays of one column, each as (width, rows, first, buffers): the bytes of an offset, or 0
        for Arrow's views; how many rows, from which on; Arrow's buffers of the array, the first of
        which says what is null (None: nothing)

    Null is one of them. O(n): each text is hashed once and compared once. About 32 bytes a distinct text
    beside the codes. The buffers are not checked, so they have to come from who keeps Arrow's rules.
    """
    cdef Texts texts
    cdef int64_t rows = 0, n, first, width
    cdef bint there
    cdef const char** data
    cdef TextArray source
    cdef int64_t[::1] codes
    codes_array = np.empty(sum([part[1] for part in parts]), np.int64)
    codes = codes_array
    if rows + codes.shape[0] >= <int64_t> 2**32 - 1:
        raise OverflowError("more than 2^32 rows of texts")
    memset(&texts, 0, sizeof(texts))
    texts.of_null = -1
    try:
        for width, n, first, buffers in parts:
            if n == 0:
                continue
            data = <const char**> malloc((len(buffers) + 1) * sizeof(char*))
            if data == NULL:
                raise MemoryError()
            try:
                for k, buffer in enumerate(buffers[2:]):
                    data[k] = start_of(buffer)
                source.width = <int> width
                source.index = start_of(buffers[1]) + (width if width else 16) * first
                source.data = data
                source.valid = <const uint8_t*> start_of(buffers[0])
                source.first = first
                with nogil:
                    there = number_texts(&texts, &source, n, &codes[rows])
            finally:
                free(data)
            if not there:
                raise MemoryError(f"{texts.found} distinct texts")
            rows += n
        return codes_array, texts.found
    finally:
        texts_free(&texts)


cdef const char* start_of(buffer) except? NULL:
    """Where it begins; NULL for None or nothing."""
    cdef const uint8_t[::1] view
    if buffer is None or not len(buffer):
        return NULL
    view = memoryview(buffer).cast("B")
    return <const char*> &view[0]
