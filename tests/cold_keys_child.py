"""A process that the tests kill: most of its keys have had no rows for long."""

from __future__ import annotations

import sys

import numpy as np

import mta
from mta import agg
from store_child import opened
from stored_stream_child import push_for_ever

KEYS = 400
SPEC = mta.rolling(4, by="k").agg(s=agg.sum("x"), d=agg.std("x"), top=agg.max("x"))


def rows(start: int, stop: int) -> dict[str, np.ndarray]:
    """The rows [start, stop): floats of any size, some keys more often than others."""
    number = np.arange(start, stop)
    x = np.sin(number) * 10.0 ** (number % 9)
    return {"k": number * number % (KEYS + 7) % KEYS, "x": x}


def stream(store):
    op = SPEC.stream(memory="1MB", store=store)
    op.room.most, op.room.often = 10_000, 1000
    return op


if __name__ == "__main__":
    push_for_ever(stream(opened(*sys.argv[1:])), rows)
