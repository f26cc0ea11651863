"""Sketches of sliding windows: the batch kernel of every family of ``mta.sketches``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mta._kernel import Counter, Lists
from mta._python_kernel import PythonKernel, put_list

if TYPE_CHECKING:
    from mta.sketches import Sketch

_Ints = NDArray[np.int64]
Wanted = tuple[
    str, "float | int | None"
]  # what is lowered: ("quantile", 0.5), ("bytes", None), ...

Items = Mapping[int, Any] | Sequence[Any]

FAN = 16  # suffixes kept of every stretch of blocks
_LOOK = 64  # rows to look for items in first; those that are frequent are soon found


class SketchKernel(PythonKernel):
    """Sketches of sliding windows: a suffix, at most a block of rows and a prefix, joined.

    Sketches have no inverse, so a window is cut in two at a row that stays the same for many
    windows: the end of a block, where the dyadic forest over blocks would cut it. Right of the cut
    one sketch grows row by row. Left of it, every block of rows is added to the sketch of all after
    it, up to the cut. Of these suffixes only 16 at even distances are kept; as the window's edge
    reaches one, the stretch before the next is gone through again in the same way.

    So an answer is one merge and at most `block` updates, a row is added about ``2 + log16(n /
    block)`` times, and no more than ``16 log16(n / block) + 2`` sketches are alive for a window of
    n rows. Where the window is cut, and with it every answer, is a function of its edges and of the
    row at which the run of overlapping windows began (`marks`). Where the bounds say at which row
    windows are cut (`cuts`), blocks are counted from there.

    sketch : the family
    wanted : what is lowered, one (what, argument) per answer
    items : where the cells of the column are codes: what each stands for (a text, bytes), by code
        or in their order; may be set anew before any slide
    """

    items: Items | None

    def __init__(
        self,
        counter: Counter,
        sketch: Sketch,
        wanted: Sequence[Wanted],
        items: Items | None,
    ) -> None:
        super().__init__(counter)
        self._sketch = sketch
        self._wanted = tuple(wanted)
        self.items = items
        self._block = 4 if sketch.merge else sketch.block
        self._arrays: list[Any] = []
        self._base = self._last = 0  # row at which the run of windows began; end of the last one
        self._forget()

    def _forget(self) -> None:
        self._split = -1  # the block at whose start windows are cut
        self._suffixes: list[tuple[int, Any]] = []  # (first block, sketch), the longest last
        self._prefix: Any = None
        self._end = 0  # the row after the last one in the prefix
        self._firsts: dict[Any, int] = {}  # the rows of the items that were answered last

    def answer_to(self, arrays: list[Any]) -> None:
        """One array per answer: float64, int64 or uint64 for quantiles (cells in the type of the
        column), int64 for estimates, objects for bytes and lists. Lists of items may also go to
        `Lists`, each item as the first row of the window that holds it."""
        self._arrays = [
            array.view(np.int64) if what == "quantile" else array
            for array, (what, _) in zip(arrays, self._wanted, strict=True)
        ]
        nan = np.float64("nan").view(np.int64)
        self._empty = [nan if getattr(a, "dtype", None) == np.float64 else 0 for a in arrays]

    def marks(self) -> tuple[int, ...]:
        """Where the run of overlapping windows began, and the end of the last window."""
        return self._base, self._last

    def resume(self, marks: tuple[int, ...]) -> None:
        """Go on from these marks."""
        self._base, self._last = marks
        self._forget()

    def go_past(self, lo: _Ints, hi: _Ints) -> None:
        """Take note of windows that are not answered."""
        begun = np.flatnonzero(lo >= np.concatenate([[self._last], hi[:-1]]))
        if len(begun):
            self._base = int(lo[begun[-1]])
        self._last = int(hi[-1])

    def answer(self, start: int, lo: _Ints, hi: _Ints) -> int | None:
        """Answer each window; equal ones once. The number of one that bytes can't tell, or None."""
        window, answers = None, []
        cuts = [None] * len(lo) if self.cuts is None else self.cuts.tolist()
        for number, mine in enumerate(zip(lo.tolist(), hi.tolist(), cuts, strict=True), start):
            if mine != window:
                window, edges = mine, mine[:2]
                try:
                    answers = self._sketch.lower(self._partial(*mine), self._wanted)
                except OverflowError:
                    return number
            for array, answer, empty in zip(self._arrays, answers, self._empty, strict=True):
                if isinstance(array, Lists):
                    put_list(array, number, self._first_rows(answer, *edges))
                else:
                    array[number] = empty if answer is None else answer
        return None

    def _first_rows(self, wanted: Sequence[Any], lo: int, hi: int) -> list[int]:
        """The first row in [lo, hi) of each of these items, all of which are inside.

        A row that was the first of a window stays it until it has left.
        """
        known = self._firsts
        found = {item: known[item] for item in wanted if known.get(item, -1) >= lo}
        missing = set(wanted) - found.keys()
        size = _LOOK
        while missing:
            for item, row in self._items_from(lo, min(lo + size, hi)):
                if item in missing:
                    missing.remove(item)
                    found[item] = row
            lo, size = lo + size, 4 * size
        self._firsts = found
        return [found[item] for item in wanted]

    def _items_from(self, start: int, stop: int) -> Iterator[tuple[Any, int]]:
        """The items of the rows [start, stop) that are not null, and the rows."""
        cells, valid = self._rows(start, stop)
        rows = np.arange(start, stop)
        if valid is not None:
            rows = rows[valid]
        return zip(self._wrapped(cells, valid), rows.tolist(), strict=True)

    def _partial(self, lo: int, hi: int, cut: int | None) -> Any:
        """The sketch of the rows [lo, hi)."""
        base = lo if lo >= self._last else self._base
        base = base if cut is None else cut
        if base != self._base or lo >= self._last:
            self._base = base
            self._forget()
        self._last = hi
        size = self._block
        front = -((self._base - lo) // size)
        back = 0 if cut is not None else (hi - self._base) // size
        if front > back:  # within one block
            nothing = self._sketch.zero()
            return self._sketch.join(nothing, self._values(lo, hi), nothing)
        self._cut_at(front if front == back else _split(front, back))
        suffix = self._suffix(front)
        if self._end < hi:
            self._extend_prefix(hi)
        values = self._values(lo, self._base + front * size)
        return self._sketch.join(suffix, values, self._prefix)

    def _cut_at(self, split: int) -> None:
        if split != self._split:
            self._split = split
            self._suffixes = [(split, self._sketch.zero(2 * split))]
            self._prefix = self._sketch.zero(2 * split + 1)
            self._end = self._base + split * self._block

    def _extend_prefix(self, stop: int) -> None:
        self._prefix = self._sketch.extend(self._prefix, self._values(self._end, stop))
        self._end = stop

    def _suffix(self, front: int) -> Any:
        """The sketch of all blocks from `front` to the cut."""
        kept = self._suffixes
        while kept[-1][0] < front:
            kept.pop()
        origin, sketch = kept[-1]
        stride = 1
        while FAN * stride < origin - front:
            stride *= FAN
        fresh = False  # whether the sketch is one that nobody keeps
        for block in range(origin - 1, front - 1, -1):
            begin = self._base + block * self._block
            sketch = sketch if fresh else self._sketch.copy(sketch)
            sketch = self._sketch.extend(sketch, self._values(begin, begin + self._block))
            fresh = block > front and (origin - block) % stride > 0
            if not fresh:
                kept.append((block, sketch))
        return sketch

    def _values(self, start: int, stop: int) -> Any:
        """The values of the rows [start, stop) that are not null."""
        return self._wrapped(*self._rows(start, stop))

    def _wrapped(self, cells: _Ints, valid: Any) -> Any:
        return self._sketch.values(cells if valid is None else cells[valid], self.items)

    def _rows(self, start: int, stop: int) -> tuple[_Ints, Any]:
        """The cells of these rows, and which of them are not null (None: all)."""
        mine = slice(start - self.first, stop - self.first)
        return self.columns[0][mine], None if self.valid is None else self.valid[mine]


def _split(front: int, back: int) -> int:
    """The number in (front, back] that is divisible by the largest power of two."""
    top = (front ^ back).bit_length() - 1
    return back >> top << top
