"""A process that the tests kill: one of its keys has a track, the others share a pool."""

from __future__ import annotations

import sys

import numpy as np

from store_child import opened
from stored_stream_child import SPECS, push_for_ever
from stored_stream_child import rows as rows_of_three

MANY = 40


def rows(start: int, stop: int) -> dict[str, np.ndarray]:
    """The rows [start, stop); every other one is of key 0."""
    number = np.arange(start, stop)
    return {**rows_of_three(start, stop), "k": np.where(number % 2, 0, number % 62)}


def stream(store):
    op = SPECS[0].stream(memory="1MB", store=store, block=700)
    op.room.fast, op.room.track = MANY, 1
    return op


if __name__ == "__main__":
    push_for_ever(stream(opened(*sys.argv[1:])), rows)
