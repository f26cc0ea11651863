"""Kernels of user monoids: through two compiled functions, or through Python.

Both answer a window as the suffix of an older half joined with the running prefix of a newer one
(two stacks, done over arrays; Tangwongsan et al., In-order sliding-window aggregation in worst-case
constant time, 2021, §2): 3 combines, 1 lift and 1 lower a row, whatever the window's length. When
the older half is used up, at the first window that holds none of its rows, that window becomes it.
Partials are combined in one order, so both give the same doubles, and only `split`, where the
halves meet, decides the roundings beside the rows inside. Where bounds cut windows, the halves meet
at the cut (of the nulls around it any row will do), or, where nothing before it counts, after the
first row that does: the prefix of one half alone would be joined with nothing. A null has no partial;
zero is not used.
"""
from cpython.object cimport PyObject
from libc.math cimport NAN
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from mta._core cimport MAX_OUTPUTS
from mta._kernel cimport MAX_COLUMNS, Counter, Kernel

import numpy as np

MOST_COLUMNS = MAX_COLUMNS

_TYPES = {"float": FLOATS, "int": INTS, "uint": UINTS, "bool": BOOLS, "object": OBJECTS,
          "text": TEXTS}
NOTHING = object()    # the partial of nulls


cdef class UserKernel(Kernel):
    """What both kinds share: the columns, where the halves meet, the check of the monoid.

    monoid, sources, program : of ``mta.monoids``
    need : rows that count without which a window is not lowered, at least 1
    """

    def __cinit__(self, Counter counter, monoid, tuple sources, program, int64_t need):
        if not 0 < len(sources) <= MAX_COLUMNS:
            raise ValueError(f"{len(sources)} columns")
        self.monoid = monoid
        self.program = program
        self.gives = program.gives
        self.sources = sources
        self.width = len(sources)
        for k, source in enumerate(sources):
            self.types[k] = _TYPES[source]
        self.need = need
        self.restore(-1)

    def __init__(self, Counter counter, monoid, tuple sources, program, int64_t need):
        Kernel.__init__(self, counter)

    @property
    def compiled(self):
        """Whether no Python runs."""
        return self.program.compiled

    def attach(self, columns, valid, int64_t first):
        """As every kernel; "object" columns are object arrays."""
        self.columns = list(columns)
        self.valid = valid
        self.first = first
        cells = [_addresses(c) if c.dtype == np.object_ else c for c in columns]
        Kernel.attach(self, cells, valid, first)
        if not self.checked:
            self.check_monoid()

    def check_monoid(self):
        """Show the monoid its first row that counts."""
        cdef int64_t row = self.last_value_in(self.first, self.scan.rows)
        if row >= self.first:
            self.checked = True
            self.monoid.check(tuple([self.value_at(k, row) for k in range(self.width)]))

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        """Where the halves meet: a fresh kernel makes both again from the rows inside."""
        marks[0] = self.split - shift
        return 1

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        return self.restore(marks[0] + shift)

    cdef int restore(self, int64_t split) noexcept nogil:
        self.ready = self.older_empty = False
        self.split = self.last = split
        self.origin = 0
        return 0

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i
        if self.scan.cut != NULL:    # answers owe nothing to the windows before
            return 0
        for i in range(n):
            if lo[i] >= self.split or self.older_empty:
                self.find_split(lo[i], hi[i], hi[i])
        self.last = self.split
        self.ready = False
        return 0

    cdef object value_at(self, int column, int64_t row):
        """A value as lift gets it."""
        cdef Cell cell = self.scan.columns[column][row]
        cdef ColumnType kind = self.types[column]
        if kind == FLOATS:
            return cell.f
        if kind == INTS:
            return cell.i
        if kind == UINTS:
            return <uint64_t> cell.i
        if kind == TEXTS:
            return self.items[column][cell.i]
        return cell.i != 0 if kind == BOOLS else <object> <PyObject*> cell.i

    cdef int64_t find_split(self, int64_t lo, int64_t hi, int64_t cut) noexcept nogil:
        """Make [lo, hi) the rows of both halves, those before the cut older, and give the row after
        the last of these that counts; lo if none of all rows does. Nulls before `split` that are
        known are not read again."""
        cdef int64_t known = max(lo, self.split) if self.older_empty else lo
        cdef int64_t split = self.split_at(cut, known, hi)
        self.older_empty = split < 0
        self.ready = True
        self.split = hi if self.older_empty else split
        self.cut = cut
        return lo if self.older_empty else split


cdef object _addresses(objects):
    """Of the objects of an array, which has to stay."""
    return np.fromiter(map(id, objects), np.int64, len(objects))


# ---------------------------------------------------------------------------- compiled

cdef class CompiledUserKernel(UserKernel):
    """A user monoid through two functions of machine code, without the GIL.

    Cost: 3 combines, 1 lift, 1 lower a row, inlined into two loops: `build` makes the suffixes of a
    window from right to left, `slide` answers windows while suffixes last. Memory: 8 bytes per
    number of the partial and row of twice the longest window that became an older half.
    """

    def __cinit__(self, Counter counter, monoid, tuple sources, program, int64_t need):
        self.build = <BuildSuffixes> <size_t> program.build.address
        self.slide = <SlideWindows> <size_t> program.slide.address
        self.cells = program.cells
        self.state = <int64_t*> calloc(2 + self.cells, sizeof(int64_t))
        if self.state == NULL:
            raise MemoryError()
        self.nothing.i = 0
        if self.gives == "float":
            self.nothing.f = NAN

    def __dealloc__(self):
        free(self.suffix)
        free(self.state)

    def answer_to(self, arrays):
        """Arrays of 8-byte items of the type `gives` (booleans: int64), all for the same answers."""
        cdef int64_t[::1] out
        if not 0 < len(arrays) <= MAX_OUTPUTS:
            raise ValueError(f"{len(arrays)} answers of one monoid")
        self.answers = [array.view(np.int64) for array in arrays]
        self.outputs = len(arrays)
        for k, view in enumerate(self.answers):
            out = view
            self.out[k] = <Cell*> &out[0] if out.shape[0] else NULL

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t window = start, stop = start + n, begun = self.split
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef const Cell** x = self.scan.columns
        cdef Cell* out = self.out[0]
        cdef int k, flipped = 1
        if n and self.starts_over(lo[start], hi[start]):
            self.restore(-1)
            begun = -1
        if n and not self.ready and lo[start] < self.split and self.scan.cut == NULL:
            flipped = self.flip(lo[start], self.split, self.split)
        while flipped >= 0 and window >= 0 and window < stop:
            if self.is_used_up(window, lo):
                flipped = self.flip(lo[window], hi[window], self.cut_of(window, hi))
                if flipped == 0:
                    out[window] = self.nothing
                    window += 1
                if flipped != 1:
                    continue
            window = self.slide(
                x[0], x[1], x[2], x[3], self.scan.valid, self.scan.valid != NULL, lo, hi, counts,
                counts != NULL, window, self.end_of_cut(window, stop), self.split, self.need,
                self.suffix - self.origin * self.cells, self.state, out)
            self.last = self.state[0]
        if flipped < 0 or window < 0:
            with gil:
                self.fail(begun, start, n, lo, hi)
        for k in range(1, self.outputs):
            memcpy(self.out[k] + start, out + start, n * sizeof(Cell))
        return -1

    cdef int flip(self, int64_t lo, int64_t hi, int64_t cut) except -2 nogil:
        """Make of the window [lo, hi) what is before the cut the older half. 0: nothing in it counts;
        -1: a function raised."""
        cdef const Cell** x = self.scan.columns
        cdef int64_t split = self.find_split(lo, hi, cut)
        self.origin = lo
        self.last = self.state[0] = self.split
        self.state[1] = 0
        if split == lo:
            return 0
        self.reserve(split - lo)
        if self.build(x[0], x[1], x[2], x[3], self.scan.valid, self.scan.valid != NULL, lo, split, 0,
                      self.suffix - lo * self.cells) < 0:
            return -1
        return 1

    cdef int reserve(self, int64_t rows) except -1 nogil:
        if rows * self.cells > self.capacity:
            free(self.suffix)
            self.capacity = 2 * rows * self.cells
            self.suffix = <int64_t*> malloc(self.capacity * sizeof(int64_t))
            if self.suffix == NULL:
                self.capacity = 0
                self.restore(-1)
                with gil:
                    raise MemoryError(f"a window of {rows} rows")
        return 0

    cdef int fail(self, int64_t begun, int64_t start, int64_t n, const int64_t* lo,
                  const int64_t* hi) except -1:
        """Machine code can't tell what was raised: raise it again, from Python."""
        cdef PythonUserKernel python = PythonUserKernel(
            self.counter, self.monoid, self.sources, self.program, self.need)
        self.restore(begun)
        python.checked = True
        python.resume((begun,))
        python.attach(self.columns, self.valid, self.first)
        python.scan.cut = self.scan.cut
        python.answer_to([np.empty(start + n, np.object_)])
        python.step(start, n, lo, hi)
        raise RuntimeError(f"{self.monoid!r}: a compiled function raised where it does not in Python")


# ------------------------------------------------------------------------------ Python

cdef class PythonUserKernel(UserKernel):
    """A user monoid of any Python objects, under the GIL.

    Cost: 3 calls of combine, 1 of lift and 1 of lower a row. Memory: one partial per row of at
    most three windows. What a function raises surfaces with a note of its row or window (Python 3.11 on), and
    the kernel stays where it was before the step.
    """

    def __cinit__(self, Counter counter, monoid, tuple sources, program, int64_t need):
        self.lift = monoid.lift
        self.combine = monoid.combine
        self.lower = monoid.lower
        self.parts = []
        self.prefix = NOTHING

    def answer_to(self, arrays):
        """Object arrays, all for the same answers."""
        self.answers = list(arrays)
        self.out = self.answers[0]

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t begun
        with gil:
            if n and self.starts_over(lo[start], hi[start]):
                self.restore(-1)
            begun = self.split
            try:
                self.run(start, n, lo, hi)
                for other in self.answers[1:]:
                    other[start:start + n] = self.answers[0][start:start + n]
            except BaseException as error:
                self.restore(begun)
                self.explain(error, lo, hi)
                raise
        return -1

    cdef int run(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -1:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t window
        if n and not self.ready and lo[start] < self.split and self.scan.cut == NULL:
            self.flip(lo[start], self.split, self.split)
        for window in range(start, start + n):
            if self.is_used_up(window, lo):
                self.flip(lo[window], hi[window], self.cut_of(window, hi))
            while self.last < hi[window]:
                self.take()
            if (counts[window] if counts != NULL else hi[window] - lo[window]) < self.need:
                self.out[window] = None
                continue
            self.out[window] = self.lowered(window, self.parts[lo[window] - self.origin], self.prefix)
        return 0

    cdef object lowered(self, int64_t window, part, prefix):
        """The answer of a window: a suffix, and the newer half or NOTHING."""
        self.at = window
        if prefix is not NOTHING:
            self.doing = "combine"
            part = self.combine(part, prefix)
        if self.lower is not None:
            self.doing = "lower"
            part = self.lower(part)
        return part

    cdef object lifted(self, int64_t row):
        cdef int k
        if self.scan.valid != NULL and not self.scan.valid[row]:
            return NOTHING
        self.doing = "lift"
        self.at = row
        if self.width == 1:
            return self.lift(self.value_at(0, row))
        return self.lift(*[self.value_at(k, row) for k in range(self.width)])

    cdef int take(self) except -1:
        """The row `last` enters the newer half."""
        cdef object part = self.lifted(self.last)
        self.join_prefix(part)
        self.parts.append(part)
        self.last += 1
        return 0

    cdef int join_prefix(self, object part) except -1:
        if part is not NOTHING and self.prefix is not NOTHING:
            self.doing = "combine with lift"
            self.prefix = self.combine(self.prefix, part)
        elif part is not NOTHING:
            self.prefix = part
        return 0

    cdef int flip(self, int64_t lo, int64_t hi, int64_t cut) except -1:
        """Make of the window [lo, hi) what is before the cut the older half, and the rest the newer."""
        cdef int64_t i, split
        cdef object part = NOTHING, older
        # (What is before an older half's end has become suffixes.)
        if not self.ready or self.last <= lo or (lo < self.split and not self.older_empty):
            self.parts = []
            self.last = self.origin = lo
        elif lo - self.origin >= hi - lo:    # not always: windows of nulls come here one by one
            del self.parts[:lo - self.origin]
            self.origin = lo
        while self.last < hi:
            self.parts.append(self.lifted(self.last))
            self.last += 1
        split = self.find_split(lo, hi, cut)
        for i in range(split - 1 - self.origin, lo - self.origin - 1, -1):
            older = self.parts[i]
            if part is NOTHING:
                part = older
            elif older is not NOTHING:
                self.doing = "combine with lift"
                self.at = self.origin + i
                part = self.combine(older, part)
            self.parts[i] = part
        self.prefix = NOTHING
        for i in range(split, split if self.older_empty else hi):
            self.at = i
            self.join_prefix(self.parts[i - self.origin])
        return 0

    cdef int explain(self, error, const int64_t* lo, const int64_t* hi) except -1:
        """Note on an error where it happened; before Python 3.11 errors take no notes."""
        cdef int k
        if not hasattr(error, "add_note") or self.doing is None:
            return 0
        if self.doing.endswith("lift"):
            values = ", ".join([repr(self.value_at(k, self.at)) for k in range(self.width)])
            where = f"lift({values}), row {self.at} in the order of the windows"
        else:
            where = f"window {self.at} (rows {lo[self.at]} to {hi[self.at] - 1}, in their order)"
        error.add_note(f"{self.monoid!r}: raised by {self.doing.split()[0]} for {where}")
        return 0
