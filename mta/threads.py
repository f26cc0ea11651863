"""Batches on several threads: each answers a stretch of the sorted rows, with kernels of its own.

Where a stretch begins inside of a key, the windows of the key before it are gone past, which finds
what later answers owe to them (`Kernel.skip`): every double is that of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mta._bounds import Bounds
from mta.arguments import no_whole, plain_number
from mta.errors import SpecError
from mta.kernels import Columns
from mta.plan import Plan
from mta.slider import AnswerOverflowError, RawAnswers, RawPart, Rows, Slider

LEAST_ROWS = 10_000  # for which a thread is worth its start


def check_threads(threads: object) -> int:
    """A number of threads from 1.

    Raises
    ------
    SpecError
        It is none.
    """
    number: int = plain_number(threads)
    if why := no_whole(number, 1):
        raise SpecError(f"threads: {why}")
    return number


def slide_in_threads(
    plan: Plan,
    columns: Columns,
    rows: Rows,
    make_bounds: Callable[[], Bounds],
    picked: NDArray[np.int64] | None,
    threads: int,
) -> RawAnswers:
    """The answers of all windows of the rows.

    make_bounds : fresh bounds of all rows, for each thread
    picked : the rows that have a window; None: all

    Raises
    ------
    AnswerOverflowError
        An integer answer does not fit; that of the first such window.
    """
    bounds = [make_bounds()]
    n = bounds[0].rows
    threads = max(1, min(threads, n // LEAST_ROWS))
    bounds += [make_bounds() for _ in range(threads - 1)]
    cuts = [n * k // threads for k in range(threads + 1)]
    edges = cuts if picked is None else picked.searchsorted(cuts).tolist()
    raw = RawAnswers(plan, columns, edges[-1])
    sliders = [Slider(plan, columns) for _ in bounds]
    parts = [RawPart(raw, start, stop) for start, stop in pairwise(edges)]
    for slider, part in zip(sliders, parts, strict=True):
        slider.attach(rows, part, bounds[0].include_self)
    _run_all(sliders, bounds, cuts, edges)
    raw.drop_full_masks([slider.counters for slider in sliders])
    raw.join_lists(parts)
    return raw


def _run_all(
    sliders: list[Slider], bounds: list[Bounds], cuts: list[int], edges: list[int]
) -> None:
    if len(sliders) == 1:
        return sliders[0].run(bounds[0])
    with ThreadPoolExecutor(len(sliders), "mta") as pool:
        runs = [
            pool.submit(slider.run, mine, start, stop)
            for slider, mine, (start, stop) in zip(sliders, bounds, pairwise(cuts), strict=True)
        ]
    for run, first in zip(runs, edges, strict=False):
        try:
            run.result()
        except AnswerOverflowError as error:
            raise AnswerOverflowError(error.output, first + error.window) from None
    return None
