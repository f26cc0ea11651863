"""Windows for tests of kernels, and rows given to a kernel in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._bounds import GivenBounds
from mta._kernel import KEPT, Counter, Kernel, Lists, slide

Ints = NDArray[np.int64]
SHAPES = ("steady", "ragged", "jumping", "growing")


def windows(rng: np.random.Generator, n: int, shape: str) -> tuple[Ints, Ints]:
    """Windows of rows 0..n whose edges never fall.

    steady : one row comes and, after some time, one goes; ragged : several or none do, and windows
    may be empty; jumping : now and then nothing is left of the window before; growing : none goes
    """
    if shape in ("steady", "growing"):
        hi = np.arange(1, n + 1)
        width = n if shape == "growing" else rng.integers(1, n + 1)
        return np.maximum(hi - width, 0), hi
    jump = rng.random(2 * n) < (0.05 if shape == "jumping" else 0)
    most = rng.integers(2, 8)
    hi = np.cumsum(rng.integers(0, most, 2 * n) * (rng.random(2 * n) < 0.8) + jump * 3)
    lag = rng.integers(0, 1 + rng.integers(0, n), 2 * n) // (1 + jump * rng.integers(1, 99, 2 * n))
    lo = np.minimum(np.maximum.accumulate(np.maximum(hi - lag, 0)), hi)
    inside = hi <= n
    return lo[inside], hi[inside]


def answer(
    kernel: Kernel,
    columns: list[NDArray[Any]],
    valid: NDArray[np.uint8] | None,
    lo: Ints,
    hi: Ints,
    rooms: list[str | type[Lists]],
    stops: list[int] | None = None,
) -> list[Any]:
    """A kernel's answers: arrays, or lists of lists where a room is `Lists`.

    stops : after which windows more rows are attached; None: all rows are there at once
    """
    parts: list[list[Any]] = [[] for _ in rooms]
    begin, front = 0, 0
    for stop in [*(stops or []), len(lo)]:
        attach(kernel, columns, valid, max(front - KEPT, 0), max(hi[:stop], default=0))
        arrays = [
            room(stop - begin) if room is Lists else np.empty(stop - begin, room) for room in rooms
        ]
        kernel.answer_to(arrays)
        slide_once(kernel, lo[begin:stop], hi[begin:stop])
        for part, array in zip(parts, arrays, strict=True):
            part.extend(split(array) if isinstance(array, Lists) else array.tolist())
        if stop:
            begin, front = stop, lo[stop - 1]
    return parts


def slide_once(kernel: Kernel, lo: Ints, hi: Ints) -> None:
    """Answer these windows."""
    assert slide(GivenBounds(lo.copy(), hi.copy()), [], [kernel]) is None


def attach(
    kernel: Kernel,
    columns: list[NDArray[Any]],
    valid: NDArray[np.uint8] | None,
    first: int,
    end: int,
) -> None:
    """Give the rows first..end, in memory where rubbish stands around them."""
    given = [among_rubbish(column[first:end]) for column in columns]
    mask = None if valid is None or valid[first:end].all() else among_rubbish(valid[first:end])
    kernel.attach(given, mask, first)


def among_rubbish(part: NDArray[Any]) -> NDArray[Any]:
    room = np.full(len(part) + 64, 1, part.dtype)
    room[32 : 32 + len(part)] = part
    return room[32 : 32 + len(part)]


def split(lists: Lists) -> list[list[int]]:
    """The lists themselves."""
    ends = np.cumsum(lists.lengths)
    items = lists.items().tolist()
    return [items[e - n : e] for e, n in zip(ends.tolist(), lists.lengths.tolist(), strict=True)]


def stops(rng: np.random.Generator, n: int, pieces: int) -> list[int]:
    """Where n windows are cut into so many pieces; 0: one by one."""
    if pieces == 0:
        return list(range(1, n))
    return sorted(rng.integers(0, n + 1, pieces - 1).tolist())


def inside(valid: NDArray[np.uint8] | None, lo: int, hi: int) -> list[int]:
    """The rows of a window that count."""
    return [row for row in range(lo, hi) if valid is None or valid[row]]


def nobody() -> Counter:
    """A counter for kernels that need none."""
    return Counter([])
