"""PagedSketches: sketches of windows larger than memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mta._kernel import Counter
from mta._paged_user import read_marks
from mta._sketch_kernel import SketchKernel

_Ints = NDArray[np.int64]
Load = Callable[[int, int], tuple[list[Any], Any, int]]
_MARKS = struct.Struct("<qq")
_NO_ROWS: tuple[_Ints, Any] = np.empty(0, np.int64), None


def _no_pages(start: int, stop: int) -> tuple[list[Any], Any, int]:
    raise RuntimeError(f"rows {start} to {stop} are neither attached nor in pages")


class SketchPlace(NamedTuple):
    """Where a kernel stands. None of its sketches is changed any more."""

    base: int
    last: int
    split: int
    suffixes: list[tuple[int, Any]]
    prefix: Any
    end: int


class PagedSketches(SketchKernel):
    """Sketches of windows of which only the newest and the oldest rows are in memory.

    As of all rows at hand, with the same cuts; what is needed of others is read, of one page at a
    time. A page is read when the window is cut anew, and about ``log16(n / page)`` times as its
    suffixes are made again; beside the sketches, two pages are in memory.

    kernel : the same over rows that are all at hand
    """

    def __init__(self, counter: Counter, kernel: SketchKernel) -> None:
        super().__init__(counter, kernel._sketch, kernel._wanted, kernel.items)
        self._kept = False  # whether `save` has given the prefix away
        self._page_rows = 1
        self._load: Load = _no_pages
        self._page = _NO_ROWS  # of the rows [_page_first, _page_end)
        self._page_first = self._page_end = 0

    def open_pages(self, bits: int, load: Load) -> None:
        """As that of ``PagedKernel``."""
        self._page_rows, self._load = 1 << bits, load

    def take_up(self, marks: tuple[int, ...], lo: int, hi: int) -> None:
        """As that of ``PagedKernel``; the marks are where overlapping windows began, and the end of
        the last one."""
        if marks:
            self.resume(marks)

    @property
    def nbytes(self) -> int:
        """Bytes of the page at hand. What sketches of the library take is not known."""
        return 9 * (self._page_end - self._page_first)

    # ------------------------------------------------------------------------------ rows

    def _rows(self, start: int, stop: int) -> tuple[_Ints, Any]:
        if start >= self.first:
            return super()._rows(start, stop)
        if start == stop:
            return _NO_ROWS
        pieces = [self._of_page(*piece) for piece in self._pieces(start, stop)]
        if len(pieces) == 1:
            return pieces[0]
        cells = np.concatenate([cells for cells, _ in pieces])
        if all(valid is None for _, valid in pieces):
            return cells, None
        return cells, np.concatenate(
            [np.ones(len(cells), np.bool_) if valid is None else valid for cells, valid in pieces]
        )

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """These rows by page."""
        while start < stop:
            end = min((start // self._page_rows + 1) * self._page_rows, stop)
            yield start, end
            start = end

    def _of_page(self, start: int, stop: int) -> tuple[_Ints, Any]:
        if start >= self.first:
            return super()._rows(start, stop)
        if not self._page_first <= start < self._page_end:
            columns, valid, self._page_first = self._load(start, stop)
            self._page = columns[0].view(np.int64), None if valid is None else valid.view(np.bool_)
            self._page_end = self._page_first + len(columns[0])
        cells, valid = self._page
        mine = slice(start - self._page_first, stop - self._page_first)
        return cells[mine], None if valid is None else valid[mine]

    def _items_from(self, start: int, stop: int) -> Iterator[tuple[Any, int]]:
        for piece in self._pieces(start, stop):
            yield from super()._items_from(*piece)

    def _extend_prefix(self, stop: int) -> None:
        if self._kept:
            self._prefix, self._kept = self._sketch.copy(self._prefix), False
        for _, end in list(self._pieces(self._end, stop)):
            super()._extend_prefix(end)

    def _cut_at(self, split: int) -> None:
        self._kept &= split == self._split
        super()._cut_at(split)

    # ------------------------------------------------------------------ all or nothing

    def let_go(self) -> None:
        """Nothing is kept that could go."""

    def rest(self) -> None:
        """Give back what can be made again when it is needed."""
        self._page, self._page_first, self._page_end = _NO_ROWS, 0, 0

    def save(self) -> SketchPlace:
        """Where it stands: for `restore`, in this process."""
        self._kept = True
        suffixes = list(self._suffixes)
        return SketchPlace(self._base, self._last, self._split, suffixes, self._prefix, self._end)

    def restore(self, saved: SketchPlace) -> None:
        """Stand where `save` was called."""
        self.resume((saved.base, saved.last))
        self._split, self._suffixes = saved.split, list(saved.suffixes)
        self._prefix, self._end, self._kept = saved.prefix, saved.end, True

    def to_parts(self) -> tuple[bytes, bytes]:
        """Where it stands, as two bytes objects: for `fill`, which makes sketches again."""
        return _MARKS.pack(*self.marks()), b""

    def fill(self, saved: bytes, pages: bytes) -> None:
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        base, last = read_marks(_MARKS, saved, pages)
        if not 0 <= base <= last:
            raise ValueError("a kernel's state has positions that make no sense")
        self.resume((base, last))
