"""A process that the tests kill: it slides a window on a store and tells what is flushed."""

from __future__ import annotations

import sys

import numpy as np

from mta import agg, fifo
from mta.stores import Store
from store_child import opened

KEEP = 700
STEP = 97
BLOCK = 256


def rows(start: int, stop: int) -> np.ndarray:
    """The values [start, stop), floats of any size, a null now and then."""
    number = np.arange(start, stop)
    values = np.sin(number) * 10.0 ** (number % 9)
    return np.ma.MaskedArray(values, number % 211 == 0)


def window(store: Store) -> fifo.StoredAMTA:
    return fifo.StoredAMTA(agg.std("x"), store, "w", block=BLOCK)


def main(kind: str, where: str) -> None:
    w = window(opened(kind, where))
    while True:
        for _ in range(1 + w.inserted % 5):
            w.slide(rows(w.inserted, w.inserted + STEP), KEEP)
        w.flush()
        print(w.inserted, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
