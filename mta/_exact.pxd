# cython: language_level=3
"""Error-free arithmetic: double-doubles and 128-bit integers. (What needs FMA is in `_precise.h`.)

A double-double is an unevaluated sum ``hi + lo`` of two doubles, about 106 significant bits.
Every function here relies on IEEE rounding of each single operation, so the package is built
with ``-ffp-contract=off``: a fused multiply-add slipped in by the compiler would change answers
from one machine to the next.
"""
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <math.h>
    typedef __int128 mta_int128;
    typedef unsigned __int128 mta_uint128;
    #define MTA_INT128_FROM_U64(x) ((mta_int128)(uint64_t)(x))
    #define MTA_HI64(x) ((int64_t)((x) >> 64))

    /* v / n, correctly rounded: a quotient of at least 55 bits with a sticky last bit
       is rounded once, by the conversion to double. */
    static inline double mta_divide_int128(mta_int128 v, int64_t n) {
        mta_uint128 a, q;
        int shift = 0, bits;
        int negative = v < 0;
        if (v > -9007199254740992LL && v < 9007199254740992LL)
            return (double)(int64_t)v / (double)n;
        a = negative ? -(mta_uint128)v : (mta_uint128)v;
        bits = (a >> 64) ? 128 - __builtin_clzll((uint64_t)(a >> 64)) : 64 - __builtin_clzll((uint64_t)a);
        bits -= 64 - __builtin_clzll((uint64_t)n);
        if (bits < 57) {
            shift = 57 - bits;
            a <<= shift;
        }
        q = a / (mta_uint128)n;
        if (q * (mta_uint128)n != a) q |= 1;
        {
            double d = ldexp((double)q, -shift);
            return negative ? -d : d;
        }
    }
    """
    # Cython has no 128-bit integer; to it this is a long long whose real width the C compiler knows.
    ctypedef long long int128 "mta_int128"
    int128 int128_from_u64 "MTA_INT128_FROM_U64"(uint64_t x) nogil
    int64_t int128_hi "MTA_HI64"(int128 x) nogil
    double divide_int128 "mta_divide_int128"(int128 v, int64_t n) nogil


cdef struct DD:
    double hi
    double lo


cdef inline DD dd(double hi, double lo) noexcept nogil:
    cdef DD r
    r.hi = hi
    r.lo = lo
    return r


cdef inline DD two_sum(double a, double b) noexcept nogil:
    """a + b exactly (Knuth, 6 operations, any order of magnitudes)."""
    cdef double s = a + b
    cdef double t = s - a
    return dd(s, (a - (s - t)) + (b - t))


cdef inline DD dd_from_int64(int64_t x) noexcept nogil:
    """An int64 as hi + lo, exactly."""
    cdef double hi = <double> x
    # x - hi fits easily, but converting hi back may overflow at 2^63: go through 128 bits.
    return dd(hi, <double> <int64_t> (<int128> x - <int128> hi))


cdef inline DD dd_from_uint64(uint64_t x) noexcept nogil:
    cdef double hi = <double> x
    return dd(hi, <double> <int64_t> (int128_from_u64(x) - <int128> hi))
