"""A process that the tests kill: it pushes rows through streams, and says what is flushed."""

from __future__ import annotations

import sys

import numpy as np

import mta
from mta import agg
from mta.stores import Store
from store_child import opened

STEP = 90
SPECS = [
    mta.rolling(f"{n}i", on="t", by="k").agg(
        s=agg.sum("x"),
        d=agg.std("x"),
        top=agg.max("x"),
        at=agg.arg_max("i", by="x"),
        q=agg.median("x"),
        n=agg.count_distinct("i"),
    )
    for n in (300, 800)
]


def rows(start: int, stop: int) -> dict[str, np.ndarray]:
    """The rows [start, stop): floats of any size, of three keys."""
    number = np.arange(start, stop)
    x = np.sin(number) * 10.0 ** (number % 9)
    return {"t": number, "k": number % 3, "x": x, "i": number * 7}


def stream(store: Store):
    return mta.together(*SPECS).stream(memory="64KB", store=store, block=700)


def push_for_ever(op, rows) -> None:
    """Say after each flush how many rows have come."""
    while True:
        for _ in range(1 + op.received % 5):
            op.push(rows(op.received, op.received + STEP))
        op.flush()
        print(op.received, flush=True)


if __name__ == "__main__":
    push_for_ever(stream(opened(*sys.argv[1:])), rows)
