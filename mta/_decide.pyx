"""Policies that need no Python: the ready-made ones, and functions compiled by numba.

They are asked in the loops over arrays. Where they can't tell (an answer is null, an integer has more
than 53 bits, a function raised or is not monotone) they say UNDECIDED, and the row goes through
Python.
"""
from libc.stdint cimport INT64_MIN, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._core cimport MAX_LEVELS, MAX_PART, gives_float
from mta._exact cimport int128
from mta._monoids cimport FLOAT, SUM, Extreme, FloatSum, IntSum, Runs, Wanted
from mta._pushed cimport RAISE
from mta._search cimport UNDECIDED

from mta.policies import AtMost, Last, SinceExtreme, SinceLongestRun, floors, policy

cdef enum:
    STEPS = 16    # rows that go one by one before the search for a sum

cdef int64_t EXACT = <int64_t> 1 << 53    # integers up to here are doubles


cdef class Guide:
    """The monoids and answers of one window, as policies see them. Subclasses know the window."""

    cdef const Lift* how(self, int monoid) noexcept nogil:
        return NULL

    cdef const ForestOps* ops(self, int monoid) noexcept nogil:
        return NULL

    cdef int query(self, int monoid, void* out) except -1 nogil:
        """The partial of the window."""
        return 0

    cdef int extend(self, int monoid, int level, int64_t row, void* out) except -1 nogil:
        """Combine a partial with the node of this level that starts at the row."""
        return 0

    cdef int evict_to(self, int monoid, int64_t front) except -1 nogil:
        """Drop what is before that row, of this monoid."""
        return 0

    cdef int restore(self, int monoid, int64_t front) except -1 nogil:
        """Make the window begin at that row, which may have gone since the last one came."""
        return 0

    cdef int64_t count(self, int answer, int64_t front, int64_t to) except -1 nogil:
        """Values that the answer counts, in the rows [front, to)."""
        return to - front

    cdef int ask(self, list answers) except -1:
        """Answer objects, whose places are those of the policy's cells."""
        cdef Answer answer
        cdef Asked* asked
        self.answers = len(answers)
        for k, answer in enumerate(answers[:MAX_OUTPUTS]):
            asked = &self.asked[k]
            asked.monoid, asked.need = answer.state, answer.need
            if answer.state >= 0:
                asked.what, asked.ddof = answer.what, answer.ddof
                asked.real = gives_float(answer.what, self.how(answer.state).source)
        return 0

    cdef int lower(self, int answer, const void* part, int64_t count, Cell* out) noexcept nogil:
        """1: there it is; 0: it is null, or Python would take another number."""
        cdef const Asked* asked = &self.asked[answer]
        cdef Wanted wanted
        if count < asked.need:
            return 0
        if asked.monoid < 0:
            out.i = count
            return 1
        wanted.what, wanted.ddof, wanted.out = asked.what, asked.ddof, out
        wanted.lo = wanted.hi = NULL
        wanted.counts = &count
        if self.ops(asked.monoid).lower(self.how(asked.monoid), &wanted, part, 1) >= 0:
            return 0
        return asked.real or -EXACT <= out.i <= EXACT


# ------------------------------------------------------------------------------ ready-made

cdef class Chain(Decider):
    """One policy after the other, over what the one before has left."""

    def __cinit__(self, Guide guide, list deciders):
        self.guide = guide
        self.first = deciders[0]
        self.others = Chain(guide, deciders[1:]) if deciders[1:] else None

    cdef int64_t first_kept(self) except -1 nogil:
        cdef int64_t front = self.first.decide(self.base, self.front, self.back)
        cdef int k
        self.decided = front >= 0
        if front < 0 or self.others is None:
            return front
        for k in range(self.guide.monoids if front > self.front else 0):
            self.guide.evict_to(k, front)
        front = self.others.decide(self.base, front, self.back)
        self.decided += self.others.decided
        return front


cdef class LastRows(Decider):
    cdef int64_t most

    cdef int64_t first_kept(self) except -1 nogil:
        return max(self.front, self.back - self.most)


cdef class ExtremeSearch(Search):
    """since_max, since_min: nodes whose key is less than the greatest one go; no combine."""

    cdef Guide guide
    cdef int monoid
    cdef int64_t greatest

    cdef int64_t first_kept(self) except -1 nogil:
        cdef Extreme total
        self.guide.query(self.monoid, &total)
        self.greatest = total.key
        # The keys of the two zeros, which are equal.
        if self.greatest == 0 and self.guide.how(self.monoid).source == FLOAT:
            self.greatest = -1
        self.most = MAX_LEVELS if self.guide.tree else 0
        return Search.first_kept(self)

    cdef int goes(self, int level) except -1 nogil:
        cdef Extreme part
        part.key = INT64_MIN
        self.guide.extend(self.monoid, level, self.row, &part)
        return part.key < self.greatest


cdef class RunStart(Decider):
    """since_longest_run: its partial knows where the run begins."""

    cdef Guide guide
    cdef int monoid
    cdef int answer

    cdef int64_t first_kept(self) except -1 nogil:
        cdef Runs total
        cdef int64_t lo, hi, middle
        self.guide.query(self.monoid, &total)
        if total.runs.best == 0:
            return self.front
        # The first row with so many values before it and one more up to it.
        lo = self.front + total.before
        hi = self.back - 1 if self.guide.count(self.answer, self.front, lo + 1) <= total.before else lo
        while lo < hi:
            middle = (lo + hi) >> 1
            if self.guide.count(self.answer, self.front, middle + 1) > total.before:
                hi = middle
            else:
                lo = middle + 1
        return lo


cdef class SumAtMost(Decider):
    """at_most: rows go until the window's own sum is low enough.

    The monoid lets them go meanwhile: one by one, and after some steps by bisection, in windows that
    are made anew, O(log^2 n) combines.
    """

    cdef Guide guide
    cdef int monoid
    cdef int64_t whole
    cdef double real

    cdef int64_t first_kept(self) except -1 nogil:
        cdef int64_t front = self.front, step, lo, hi, middle
        while front < self.back and not self.fits():
            if self.guide.restores and front - self.front >= STEPS:
                break
            front += 1
            self.guide.evict_to(self.monoid, front)
        else:
            return front
        # Rows [.., lo) go; the window from hi on fits.
        lo, hi, step = front, self.back, STEPS
        while lo + step < self.back:
            if self.fits_from(lo + step):
                hi = lo + step
                break
            lo += step
            step *= 2
        while hi - lo > 1:
            middle = (lo + hi) >> 1
            if self.fits_from(middle):
                hi = middle
            else:
                lo = middle
        self.guide.restore(self.monoid, hi)
        return hi

    cdef bint fits_from(self, int64_t front) except -1 nogil:
        self.guide.restore(self.monoid, front)
        return self.fits()

    cdef bint fits(self) except -1 nogil:
        """Whether the window's sum does."""
        cdef FloatSum part
        cdef IntSum whole
        cdef Cell sum
        cdef Wanted wanted
        if self.guide.how(self.monoid).source != FLOAT:
            self.guide.query(self.monoid, &whole)
            return whole.value <= <int128> self.whole
        self.guide.query(self.monoid, &part)
        wanted.what, wanted.out = SUM, &sum
        self.guide.ops(self.monoid).lower(self.guide.how(self.monoid), &wanted, &part, 1)
        return sum.f <= self.real


# -------------------------------------------------------------------------------- functions

cdef class CompiledSearch(Search):
    """A function, at its address: its cells are the answers over the window and over a prefix."""

    cdef Guide guide
    cdef object program      # keeps the function
    cdef Judge judge
    cdef char* old           # the prefix: a partial per monoid
    cdef char* more          # the same and one node
    cdef Cell total[MAX_OUTPUTS]
    cdef Cell cells[MAX_OUTPUTS]

    def __cinit__(self, Guide guide, program):
        cdef size_t size = MAX_PART * max(guide.monoids, 1)
        self.guide = guide
        self.program = program
        self.judge = <Judge> <size_t> program.judge.address
        self.old = <char*> malloc(size)
        self.more = <char*> malloc(size)
        if self.old == NULL or self.more == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.old)
        free(self.more)

    cdef int64_t first_kept(self) except -1 nogil:
        cdef int k
        self.most = MAX_LEVELS if self.guide.tree else 0
        for k in range(self.guide.monoids):
            self.guide.query(k, self.more + k * MAX_PART)
            self.guide.ops(k).identity(self.guide.how(k), self.old + k * MAX_PART)
        if not self.lower(self.back, self.total):
            return UNDECIDED
        return Search.first_kept(self)

    cdef int lower(self, int64_t to, Cell* out) except -1 nogil:
        """The answers over the rows [front, to), whose partials are in `more`."""
        cdef int k
        cdef const char* part = NULL
        for k in range(self.guide.answers):
            if self.guide.asked[k].monoid >= 0:
                part = self.more + self.guide.asked[k].monoid * MAX_PART
            if not self.guide.lower(k, part, self.guide.count(k, self.front, to), &out[k]):
                return 0
        return 1

    cdef int goes(self, int level) except -1 nogil:
        cdef int k
        cdef int64_t gone
        memcpy(self.more, self.old, MAX_PART * self.guide.monoids)
        for k in range(self.guide.monoids):
            self.guide.extend(k, level, self.row, self.more + k * MAX_PART)
        if not self.lower(self.row + (<int64_t> 1 << level), self.cells):
            return UNDECIDED
        gone = self.judge(self.total, self.cells)
        return <int> gone if gone >= 0 else UNDECIDED

    cdef int accept(self) except -1 nogil:
        self.old, self.more = self.more, self.old
        return 0

    cdef int all_go(self) except -1 nogil:
        return 0 if self.row + 1 >= self.back else self.judge(self.total, self.total) != 0


cdef object make_compiled(rule, Guide guide, list answers, made):
    """A function as decider; None where only Python will do."""
    cdef Answer answer
    kinds = []
    if guide.answers > MAX_OUTPUTS:
        return None
    for k, answer in enumerate(answers):
        whole = answer.state >= 0 and guide.how(answer.state).source != FLOAT
        if answer.kernel >= 0 or (whole and answer.overflow != RAISE):
            return None
        real = answer.state >= 0 and guide.asked[k].real
        kinds.append("bool" if answer.truth else "float" if real else "int")
    program = policy(rule).program(made, tuple(kinds))
    return CompiledSearch(guide, program) if program.judge is not None else None


cdef Decider make_decider(rule, Guide guide, pairs, list answers, made):
    """A policy over one window; None where only Python will do.

    pairs : named aggregates
    answers : Answer objects, one each
    made : the class of named tuples that they come in; None: there is one, bare
    """
    cdef int place = 0
    cdef LastRows rows
    cdef ExtremeSearch extreme
    cdef RunStart run
    cdef SumAtMost sum
    if isinstance(rule, Last):
        rows = LastRows()
        rows.most = rule.range
        return rows
    if isinstance(rule, (SinceExtreme, SinceLongestRun, AtMost)):
        place = rule.place(pairs, made is None)
    if isinstance(rule, SinceExtreme):
        extreme = ExtremeSearch()
        extreme.guide, extreme.monoid = guide, (<Answer> answers[place]).state
        return extreme
    if isinstance(rule, SinceLongestRun):
        run = RunStart()
        run.guide, run.monoid, run.answer = guide, (<Answer> answers[place]).state, place
        return run
    if isinstance(rule, AtMost):
        sum = SumAtMost()
        sum.guide, sum.monoid = guide, (<Answer> answers[place]).state
        sum.whole, sum.real = floors(rule.total)
        return sum
    return make_compiled(rule, guide, answers, made)
