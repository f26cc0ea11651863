"""Many rows pushed at once into a window whose policy is built in: the answers of pushing them one by
one, to the last bit, with no Python object per row.

The values go to the columns as arrays; the windows after every row are then intervals [lo, hi) of
rows, which the forests and kernels step through as in a batch.
"""
from libc.math cimport isnan
from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from mta._batches cimport Batches, make_batches
from mta._core cimport CHUNK, MAX_PART, Forest, gives_float
from mta._held cimport Held
from mta._inside cimport INTEGER, REAL, UNKNOWN, InputState, RawColumn, Times
from mta._monoids cimport Cell, Source, Wanted
from mta._pushed cimport RAISE, Answer, KernelState, Room, StateForest
from mta._vector cimport Vector

import numpy as np

from mta.errors import DataError

cdef enum:
    BLOCK = 8 * CHUNK    # rows that come in before those that they drive out are let go
    LONG = 2 * CHUNK     # rows of an array for which kernels are worth being made
    SHARED = 1 << 22     # bytes from which on answers are one piece of memory, which large pages may hold

EXACT = 2**53            # integers up to here are doubles
SAFE = 2.0**62           # sums up to here fit in 64 bits


cdef bint is_array(value) except -1:
    """Whether a value given for a row is one per row."""
    return isinstance(value, np.ndarray) and (<object> value).ndim == 1


# ------------------------------------------------------------------------------ reading arrays

cdef object read_arrays(Held window, row, time, dict columns):
    """The rows as (arrays by column name, times or None, how many), whatever they hold.

    Raises
    ------
    DataError
        A column is missing, or is no array, or of another length.
    """
    cdef RawColumn column
    given = dict(columns) if columns else {}
    if isinstance(row, dict):
        given = {**row, **given}
    elif row is not None:
        if len(window.raw) != 1:
            raise DataError(f"row: name the arrays; the aggregates use {len(window.raw)} columns")
        given[(<RawColumn> window.raw[0]).name] = row
    wanted = [column.name for column in window.raw]
    if window.times is not None:
        wanted.append(window.times.on)
        if time is not None:
            given[window.times.on] = time
    elif time is not None:
        raise DataError("time: the policy of this window uses none")
    for name in wanted:
        if name not in given:
            raise DataError(f"rows from {window.back}: no values for column {name!r}")
        if not is_array(given[name]):
            raise DataError(f"rows from {window.back}: {name!r} has to be an array of one dimension, "
                            "as the others are")
    lengths = {len(given[name]) for name in wanted or given}
    if len(lengths) != 1:
        raise DataError(f"rows from {window.back}: arrays of different lengths")
    times = given[window.times.on] if window.times is not None else None
    return {column.name: given[column.name] for column in window.raw}, times, lengths.pop()


cdef object plain_arrays(Held window, dict arrays, time):
    """The same as what the columns keep: [(8-byte cells, valid or None)] per column and ticks; None
    where rows have to be read one by one."""
    cdef RawColumn column
    made = []
    for column in window.raw:
        cells = plain_cells(column, arrays[column.name])
        if cells is None:
            return None
        made.append(cells)
    ticks = None
    if window.times is not None:
        ticks = plain_ticks(window.times, time, window.back)
        if ticks is None:
            return None
    return made, ticks


cdef object plain_cells(RawColumn column, array):
    if not column.numeric:
        return counted_cells(column, array)
    if column.taken or column.truths or array.dtype.kind not in "fiu":
        return None
    array, valid = unmasked(array)
    if array.dtype.itemsize > 8 or (array.dtype.kind == "u" and array.max(initial=0) >= 2**63):
        return None
    real = array.dtype.kind == "f"
    if column.type == REAL and not real:
        if array.max(initial=0) > EXACT or array.min(initial=0) < -EXACT:
            return None
        real = True
    if column.type != UNKNOWN and (column.type == REAL) != real:
        return None
    if column.type == UNKNOWN and valid is not None:
        return None
    cells = np.ascontiguousarray(array, np.float64 if real else np.int64)
    return cells, valid, REAL if real else INTEGER


cdef tuple unmasked(array):
    """The values, 0 for null, and where they are none (None: nowhere)."""
    if not isinstance(array, np.ma.MaskedArray):
        return array, None
    valid = ~np.ma.getmaskarray(array)
    return array.filled(0), None if valid.all() else valid


cdef object counted_cells(RawColumn column, array):
    """Of a column whose values are only counted: whether each is a NaN."""
    if column.taken or column.check is not None or array.dtype.kind not in "fiub":
        return None
    array, valid = unmasked(array)
    cells = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), np.bool_)
    return cells.astype(np.int64), valid, INTEGER


cdef object plain_ticks(Times times, array, int64_t back):
    if times.is_ticks:
        if array.dtype.kind not in "iu" or isinstance(array, np.ma.MaskedArray):
            return None
        if array.dtype.kind == "u" and array.max(initial=0) >= 2**63:
            return None
        ticks = np.ascontiguousarray(array, np.int64)
    else:
        if array.dtype.kind != "M" or np.isnat(array).any() or (back > 0 and times.aware):
            return None
        stamps = array.astype("M8[ns]")
        if (stamps.astype(array.dtype) != array).any():
            return None
        ticks = np.ascontiguousarray(stamps).view(np.int64)
    if len(ticks) and ((back > 0 and ticks[0] < times.newest) or (ticks[1:] < ticks[:len(ticks) - 1]).any()):
        return None
    return ticks


cdef bint is_plain(Held window, list given, int64_t rows) except -1:
    """Whether all answers are numbers that fit, so that none of the rows can fail."""
    cdef Answer answer
    cdef RawColumn column
    cdef KernelState state
    cdef StateForest forest
    cdef Room room
    cdef double reach = 0.0
    integers = False
    for place, column in enumerate(window.raw):
        cells, _, type = given[place]
        if type == INTEGER and column.numeric:
            integers = True
            inside = column.values.view()
            reach = max(reach, *[float(abs(float(x))) for v in (cells, inside)
                                 for x in (v.max(initial=0), v.min(initial=0))])
    if integers and reach * (window.back - window.front + rows) >= SAFE:
        return False
    for answer in window.answers:
        if answer.truth or answer.overflow != RAISE:
            return False
    for state in window.kernels:
        if integers or state.moves or state.user is not None:
            return False
        for room in state.rooms:
            if room.lists is not None or room.cell == NULL or room.by_row is not None:
                return False
    return True


# ---------------------------------------------------------------------------------- taking in

cdef int settle_types(Held window, list given) except -1:
    """Columns without a value so far take on the type of theirs."""
    cdef RawColumn column
    for place, column in enumerate(window.raw):
        if column.type == UNKNOWN:
            column.now_type = given[place][2]
            column.settle_type()
            window.rebuild_column(column)
    return 0


cdef int take_in(Held window, list given, int64_t start, int64_t stop, ticks) except -1:
    """The rows start..stop of the arrays come to the columns, after all that are there."""
    cdef RawColumn column
    cdef InputState source
    masks = {}
    skipping = {column for source in window.inputs if (<InputState> source).skip_nan
                for column in [(<InputState> source).column, *((<InputState> source).others or ())]}
    for place, column in enumerate(window.raw):
        cells, valid, type = given[place]
        cells, valid = cells[start:stop], None if valid is None else valid[start:stop]
        nan = None
        if column in skipping:
            nan = np.isnan(cells) if type == REAL else None if column.numeric else cells != 0
        masks[column] = valid, nan if nan is not None and nan.any() else None
        extend_column(column, cells, valid, masks[column][1])
    for source in window.inputs:
        extend_input(source, masks, window.back, stop - start)
    if ticks is not None:
        window.times.ticks.extend(ticks[start:stop])
        window.times.newest = ticks[stop - 1]
    return 0


cdef int extend_column(RawColumn column, cells, valid, nan) except -1:
    if valid is not None and column.valid is None:
        column.valid = Vector(False, column.values.first)
        column.valid.extend(np.ones(len(column.values), np.uint8))
    if column.skipped and nan is not None and column.clean is None:
        column.make_clean()
    column.values.extend(cells.view(np.int64))
    if column.clean is not None:
        clean = cells if nan is None else np.where(nan, 0.0, cells)
        column.clean.extend(clean.view(np.int64))
    if column.valid is not None:
        column.valid.extend(np.ones(len(cells), np.uint8) if valid is None else valid)
    return 0


cdef int extend_input(InputState source, dict masks, int64_t back, int64_t rows) except -1:
    counts = None
    for column in [source.column, *(source.others or ())]:
        valid, nan = masks[column]
        for mask in (valid, None if nan is None or not source.skip_nan else ~nan):
            if mask is not None:
                counts = mask if counts is None else counts & mask
    if counts is not None and source.before is None:
        first = source.column.values.first
        source.before = Vector(True, first)
        source.before.extend(np.arange(first, back))
        source.mask = Vector(False, first)
        source.mask.extend(np.ones(back - first, np.uint8))
        source.seen = back
    if source.before is None:
        return 0
    counts = np.ones(rows, np.bool_) if counts is None else counts
    source.before.extend(source.seen + np.cumsum(counts) - counts)
    source.mask.extend(counts)
    source.seen += counts.sum()
    return 0


cdef int insert_arrays(Held window, given, int64_t rows) except -1:
    """All rows come in, none leaves. given : what `plain_arrays` gives"""
    cdef StateForest state
    cdef int64_t lo, hi
    cdef char part[MAX_PART]
    plain, ticks = given
    if rows == 0:
        return 0
    settle_types(window, plain)
    take_in(window, plain, 0, rows, ticks)
    lo, hi = window.front, window.back + rows
    if window.front == window.back:
        window.base = window.back
    for state in window.forests:
        state.forest.ops.slide(&state.forest.state, state.cells(), state.mask(), 0,
                               &lo, &hi, 1, part)
    window.back = hi
    return 0


# ----------------------------------------------------------------------------------- answering

cdef object push_arrays(Held window, int64_t most, given, int64_t rows):
    """The answers after each of the rows, as a list of arrays.

    most : rows that the policy keeps; -1: all, but for those that are too old
    given : what `plain_arrays` gives
    """
    cdef int64_t start = 0, stop = 0, base
    cdef Batches batches = None
    plain, ticks = given
    lo, hi = np.empty(rows, np.int64), np.arange(window.back + 1, window.back + rows + 1)
    settle_types(window, plain)
    out = make_slots(window, rows)
    if rows >= LONG and rows >= (window.back - window.front) // 2:
        batches = make_batches(window.forests, window.answers, [(<Slots> slots).values for slots in out])
    try:
        while stop < rows:
            start, stop = stop, piece_end(window, stop, rows)
            take_in(window, plain, start, stop, ticks)
            base = find_fronts(window, most, start, stop, lo)
            answer_rows(window, out, lo, hi, start, stop, most, batches)
            window.back += stop - start
            window.base = base
            window.kept = lo[stop - 1]
            window.drop_rows(lo[stop - 1])    # the forests have done so as they went
    finally:
        if batches is not None:
            batches.end(window.front, window.back, window.base)
    return [(<Slots> slots).answers() for slots in out]


cdef int64_t piece_end(Held window, int64_t start, int64_t rows) noexcept:
    """Rows come in piece by piece, of about one size: for kernels, which look at the whole window when
    they take up a column, pieces are not much shorter than it is."""
    cdef int64_t piece = max(<int64_t> BLOCK, (window.back - window.front) // 2)
    cdef int64_t pieces = (rows - start + piece - 1) // piece
    return start + (rows - start + pieces - 1) // pieces


cdef list make_slots(Held window, int64_t rows):
    """Room for all answers; of many in one piece, as fresh memory costs less so."""
    cdef int64_t n = len(window.answers)
    if n * rows * 8 < SHARED:
        return [Slots(answer, window, np.empty(rows, np.int64)) for answer in window.answers]
    return [Slots(answer, window, room) for answer, room in zip(window.answers, np.empty((n, rows), np.int64))]


cdef int64_t find_fronts(Held window, int64_t most, int64_t start, int64_t stop,
                         int64_t[::1] lo) except -1:
    """lo[start..stop), and the row that the forests count from after the last: where no older row is
    left, they count anew."""
    cdef int64_t i, row = window.back, front = window.front, base = window.base
    cdef Vector ticks = window.times.ticks if window.times is not None else None
    cdef int64_t span = window.times.span if ticks is not None else 0, now
    for i in range(start, stop):
        if ticks is not None:
            now = ticks.at(row)
            if now >= INT64_MIN + span:
                while ticks.at(front) <= now - span:    # the row itself stays
                    front += 1
        elif most >= 0:
            front = max(front, row + 1 - most)
        if front >= row:
            base = row
        lo[i] = front
        row += 1
    return base


cdef class Slots:
    """Where one answer of many windows goes."""

    def __cinit__(self, Answer answer, Held window, room):
        """room : int64 array, one item a window"""
        cdef int64_t[::1] view = room
        cdef uint8_t[::1] bytes
        self.answer = answer
        self.values = room.view(answer_type(answer, window))
        self.valid = np.ones(len(room), np.uint8)
        self.full = True
        bytes = self.valid
        self.cells = <Cell*> &view[0] if len(room) else NULL
        self.there = &bytes[0] if len(room) else NULL

    cdef int put(self, int64_t place, value) except -1:
        """An answer that was given by itself."""
        if value is None:
            self.there[place] = False
            self.full = False
        else:
            self.values[place] = value
        return 0

    cdef object answers(self):
        """As mta gives arrays: null is NaN, and masked where there is none."""
        if self.full:
            return self.values
        valid = self.valid.view(np.bool_)
        if self.values.dtype.kind == "f":
            self.values[~valid] = np.nan
            return self.values
        return np.ma.MaskedArray(self.values, ~valid)


cdef object answer_type(Answer answer, Held window):
    """Of numbers; the columns have their types by now."""
    cdef Source source
    if answer.kernel >= 0:
        state = <KernelState> window.kernels[answer.kernel]
        return (<Room> (<KernelState> state).rooms[answer.place]).room.dtype
    if answer.state < 0:
        return np.int64
    source = (<StateForest> window.forests[answer.state]).forest.state.how.source
    return np.float64 if gives_float(answer.what, source) else np.int64


cdef int answer_rows(Held window, list out, const int64_t[::1] lo, const int64_t[::1] hi, int64_t start,
                     int64_t stop, int64_t most, Batches batches) except -1:
    """The answers start..stop: of one forest after the other, so that what it works on stays in the
    cache, CHUNK of them at a time."""
    cdef int64_t i
    cdef int number
    cdef void* parts = malloc(CHUNK * MAX_PART)
    counts = np.empty(CHUNK, np.int64)
    if parts == NULL:
        raise MemoryError()
    try:
        for number in range(-1, len(window.forests)):
            if batches is not None and batches.takes(number):
                batches.answer(number, &lo[0], &hi[0], start, stop, most, window.base, window.back)
                note_all(out, number, lo, hi, start, stop, counts)
                continue
            for i in range(start, stop, CHUNK):
                answer_forest(window, out, number, &lo[i], &hi[i], i, min(<int64_t> CHUNK, stop - i), parts, counts)
        for i in range(start, stop if window.kernels else start, CHUNK):
            answer_kernels(window, out, &lo[i], &hi[i], i, min(<int64_t> CHUNK, stop - i))
    finally:
        free(parts)
    return 0


cdef int answer_forest(Held window, list out, int number, const int64_t* lo, const int64_t* hi, int64_t place,
                       int64_t n, void* parts, int64_t[::1] counts) except -1:
    cdef StateForest state
    if number >= 0:
        state = window.forests[number]
        state.forest.ops.slide(&state.forest.state, state.cells(), state.mask(), 0, lo,
                               hi, n, parts)
    return lower_answers(window, out, number, lo, hi, place, n, parts, counts)


cdef int note_all(list out, int number, const int64_t[::1] lo, const int64_t[::1] hi, int64_t start, int64_t stop,
                  int64_t[::1] counts) except -1:
    """Which of the answers of a forest are null, where a kernel has given them."""
    cdef Slots slots
    cdef int64_t i, n
    for slots in out:
        if slots.answer.state != number:
            continue
        for i in range(start, stop, CHUNK):
            n = min(<int64_t> CHUNK, stop - i)
            if no_window_below(slots.answer, &lo[i], &hi[i], n):
                continue
            count_rows(slots.answer.input, &lo[i], &hi[i], n, counts)
            note_nulls(slots, counts, i, n)
    return 0


cdef bint no_window_below(Answer answer, const int64_t* lo, const int64_t* hi, int64_t n) noexcept:
    """Whether it shows at the first and last window that all have the values that the answer needs."""
    return answer.input.before is None and hi[0] - lo[n - 1] >= answer.need


cdef int lower_answers(Held window, list out, int number, const int64_t* lo, const int64_t* hi, int64_t place,
                       int64_t n, const void* parts, int64_t[::1] counts) except -1:
    """The answers of the forest of this number, from its partials over n windows; -1: those that count
    rows."""
    cdef Forest forest = (<StateForest> window.forests[number]).forest if number >= 0 else None
    cdef Slots slots
    cdef Wanted wanted
    for slots in out:
        if slots.answer.state != number or (number < 0 and slots.answer.kernel >= 0):
            continue
        count_rows(slots.answer.input, lo, hi, n, counts)
        note_nulls(slots, counts, place, n)
        if number < 0:
            note_counts(slots, counts, place, n)
            continue
        wanted.what = slots.answer.what
        wanted.ddof = slots.answer.ddof
        wanted.lo = lo
        wanted.hi = hi
        wanted.counts = &counts[0]
        wanted.out = slots.cells + place
        forest.ops.lower(&forest.state.how, &wanted, parts, n)
    return 0


cdef int answer_kernels(Held window, list out, const int64_t* lo, const int64_t* hi, int64_t place,
                        int64_t n) except -1:
    cdef KernelState state
    cdef Slots slots
    cdef int number = 0
    cdef int64_t[::1] counts
    for state in window.kernels:
        mine = [slots for slots in out if (<Slots> slots).answer.kernel == number]
        rooms = [(<Room> room).room for room in state.rooms]
        into = [np.empty(n, room.dtype) for room in rooms]
        state.kernel.answer_to(into)
        state.attach()
        state.kernel.scan.rows = hi[n - 1]
        state.kernel.scan.steady = False
        state.counter.step(0, n, lo, hi)
        state.kernel.step(0, n, lo, hi)
        state.kernel.answer_to(rooms)
        counts = np.empty(n, np.int64)
        for slots in mine:
            slots.values[place:place + n] = into[slots.answer.place]
            count_rows(slots.answer.input, lo, hi, n, counts)
            note_nulls(slots, counts, place, n)
        number += 1
    return 0


cdef void count_rows(InputState source, const int64_t* lo, const int64_t* hi, int64_t n,
                     int64_t[::1] counts) noexcept:
    """Values in each window; all are at hand."""
    cdef int64_t i, back
    if source is None or source.before is None:
        for i in range(n):
            counts[i] = hi[i] - lo[i]
        return
    back = source.before.first + len(source.before)
    for i in range(n):
        counts[i] = source.count(lo[i], hi[i], back)


cdef void note_nulls(Slots slots, const int64_t[::1] counts, int64_t place, int64_t n) noexcept:
    cdef int64_t i, need = slots.answer.need
    cdef uint8_t* there = slots.there + place
    cdef uint8_t all_there = True
    for i in range(n):
        there[i] = counts[i] >= need
        all_there &= there[i]
    slots.full = slots.full and all_there


cdef void note_counts(Slots slots, const int64_t[::1] counts, int64_t place, int64_t n) noexcept:
    cdef int64_t i
    for i in range(n):
        slots.cells[place + i].i = counts[i]


cdef object as_array(list answers):
    """Answers that were given one by one, as such an array."""
    kinds = {type(x) for x in answers}
    nulls = type(None) in kinds
    kinds.discard(type(None))
    if kinds <= {float} or kinds == {int, float}:
        return np.array([np.nan if x is None else x for x in answers], np.float64)
    if kinds in ({int}, {bool}) and all(x is None or -2**63 <= x < 2**63 for x in answers):
        array = np.array([x or 0 for x in answers], np.bool_ if kinds == {bool} else np.int64)
        return np.ma.MaskedArray(array, [x is None for x in answers]) if nulls else array
    array = np.empty(len(answers), object)
    array[:] = answers
    return array
