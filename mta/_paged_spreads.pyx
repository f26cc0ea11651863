# distutils: depends = mta/_squares.h mta/_halves.h
"""var and std of windows larger than memory: two halves of sums of deviations and of their squares.

As those of ``_spreads.pyx``, the sums are around the last value before the split and far more precise
than the answers (``docs/adr/0002``), so both agree to the last bit.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from mta._halves cimport Column, HalvesKernel, bind_column, column_origin, set_column_origin
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport Cell, Moments

cdef extern from "_squares.h":
    ctypedef struct Number "mta_dd":
        pass
    ctypedef struct CMoments "mta_moments":
        pass
    ctypedef struct Squares "mta_squares":
        pass
    ctypedef struct SquaresRows "mta_squares_rows":
        Column x
        const uint8_t* valid
    Number origin "mta_origin"(const Column* c) nogil
    void around_row "mta_around_row"(Column* c, int64_t row) nogil
    void squares_begin "mta_squares_begin"(CMoments* out, Number k) nogil
    void squares_left "mta_squares_left"(const SquaresRows* rows, int64_t lo, int64_t hi, Squares* r,
                                         Squares* out) nogil
    void squares_slide "mta_squares_slide"(
        const SquaresRows* rows, const int64_t* lo, const int64_t* hi, int64_t n, int64_t last,
        const Squares* suffix, Squares* r, Squares* out) nogil
    void lower_squares "mta_lower_squares"(const Squares* sums, const double* count, int64_t n,
                                           bint root, int64_t ddof, double* out) nogil
    void combine_moments "mta_combine_moments"(CMoments* out, const CMoments* a, const CMoments* b) nogil

cdef enum:
    VAR
    STD


cdef class SquaresKernel(HalvesKernel):
    """var and std of one column, for ``PagedHalves``.

    source : "float", "int" or "uint": integers are taken exactly
    wanted : list of ("var" or "std", ddof), one per answer
    """

    cdef SquaresRows rows
    cdef str source

    def __cinit__(self, Counter counter, str source, wanted):
        self.source = source
        self.ask(wanted, {"var": VAR, "std": STD})
        self.reserve(sizeof(Squares))

    def __init__(self, Counter counter, str source, wanted):
        Kernel.__init__(self, counter)

    def attach(self, columns, const uint8_t[::1] valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        bind_column(&self.rows.x, self.scan.columns[0], self.source)
        self.rows.valid = self.scan.valid

    cdef void around(self, int64_t row) noexcept nogil:
        around_row(&self.rows.x, row)

    cdef void clear(self, void* part) noexcept nogil:
        memset(part, 0, sizeof(Squares))

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        squares_left(&self.rows, lo, hi, <Squares*> part, <Squares*> out)

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        squares_slide(&self.rows, lo, hi, n, self.last, <const Squares*> suffix,
                      <Squares*> self.newer, <Squares*> self.parts)

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        lower_squares(<const Squares*> parts, self.counts, n, what == STD, option, &out.f)
        return -1

    cdef size_t monoid_size(self) noexcept nogil:
        return sizeof(Moments)

    cdef const void* sums(self, const void* part) noexcept nogil:
        return &(<const Moments*> part).s1

    cdef void begin(self, void* part) noexcept nogil:
        squares_begin(<CMoments*> part, origin(&self.rows.x))

    cdef void count(self, void* part, int64_t n) noexcept nogil:
        (<Moments*> part).n = n

    cdef void prepend(self, void* part, const void* older) noexcept nogil:
        combine_moments(<CMoments*> part, <const CMoments*> part, <const CMoments*> older)

    cdef void tell_origin(self, Cell* to) noexcept nogil:
        column_origin(&self.rows.x, to)

    cdef void go_to_origin(self, const Cell* told) noexcept nogil:
        set_column_origin(&self.rows.x, told)
