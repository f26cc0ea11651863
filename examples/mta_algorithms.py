"""The algorithms that the MTA paper compares, and more, by name; checks of what they answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta import fifo
from mta.errors import DataError, SpecError

Array = NDArray[Any]
Progress = Callable[[str], None]

ALGORITHMS = (
    "Recompute",
    "SubtractOnEvict",
    "TwoStacks",
    "DABA",
    "DABALite",
    "FlatFAT",
    "LogMTA",
    "AMTA",
)
"""As ``mta.fifo`` calls them. The paper has Recompute as Naive, FlatFAT as RA (Table 1 only)."""

ON_A_STORE = ("StoredLogMTA", "StoredAMTA")
"""With nodes on a store: LMDB, on this machine. The paper's KVS is on three more."""

KEEP_SUFFIXES = ("TwoStacks", "DABALite")
"""They need their values as well to enforce a policy."""


def opened(algorithm: str, aggregate: Any, policy: bool = False) -> fifo.Fifo:
    """An empty window in memory. policy : it has to enforce one."""
    options = {"keep_values": True} if policy and algorithm in KEEP_SUFFIXES else {}
    window: fifo.Fifo = getattr(fifo, algorithm)(aggregate, **options)
    return window


@contextmanager
def living(algorithm: str, aggregate: Any, policy: bool = False) -> Iterator[fifo.Fifo]:
    """An empty window, in memory or on a store of its own, which goes with it."""
    if algorithm not in ON_A_STORE:
        yield opened(algorithm, aggregate, policy)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"lmdb://{folder}/window?sync=never"
        with getattr(fifo, algorithm)(aggregate, url) as window:
            yield window


def able(algorithms: Sequence[str], aggregate: Any, values: Array) -> list[str]:
    """Those that take the aggregate over such values: SubtractOnEvict needs an exact inverse."""
    found = []
    for algorithm in algorithms:
        try:
            with living(algorithm, aggregate) as window:
                window.insert_many(values[:1])
        except (SpecError, DataError):
            continue
        found.append(algorithm)
    return found


def check_same(answers: dict[str, Array], tolerance: float = 0.0) -> None:
    """All algorithms answer alike; where some answered less often, as far as they went.

    tolerance : by how much, relatively, answers that round on their way may differ
    """
    # A monoid of one's own gives tuples, in arrays of objects.
    plain = {
        algorithm: np.array(given.tolist()) if given.dtype == object else given
        for algorithm, given in answers.items()
    }
    longest = max(plain.values(), key=len)
    for algorithm, given in plain.items():
        wanted = longest[: len(given)]
        if not np.allclose(given, wanted, rtol=tolerance, atol=0, equal_nan=True):
            raise AssertionError(f"{algorithm} answers otherwise than the others")


def check_some(answers: Array, values: Array, keep: int, total: Callable[[Array], Any]) -> None:
    """A few answers are those of the values inside; the first one has `keep` values before it."""
    for i in {0, 1 % len(answers), len(answers) // 2, len(answers) - 1}:
        wanted = total(values[i + 1 : i + 1 + keep])
        if not np.isclose(answers[i], wanted, rtol=1e-9, atol=0):
            raise AssertionError(f"answer {i} is {answers[i]}, not {wanted}")
