"""A process whose memory the tests look at: one key's stream, micro-batch after micro-batch.

Prints a line for every micro-batch: the bytes of Python's objects and NumPy's arrays, those of
Arrow, and those that are resident and not of files. It is what a Python worker of Spark does, in
`TwsTester`, whose store is in this process, too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa

import mta
from mta import agg
from shard_queries import Query

ROWS = 5_000  # of a micro-batch
WINDOW = 4_000  # rows
TEXT = 200  # bytes of a row that are only carried through
AGGS = {"n": agg.count(), "s": agg.sum("x"), "q": agg.median("x"), "hi": agg.max("x")}
SCHEMA = pa.schema([
    ("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("text", pa.string()),
])  # fmt: skip


def resident() -> int:
    told = Path("/proc/self/status").read_text().split("RssAnon:")[1]
    return int(told.split()[0]) * 1024


def held() -> tuple[int, int, int]:
    """Once what is free has been given back, as far as it can be."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library
    if trim is not None:
        trim(0)
    return tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes(), resident()


def main(output: str, count: int) -> None:
    spec = mta.rolling(f"{WINDOW}i", on="t", by="k").watermark("100i").agg(**AGGS)
    query, rng = Query(spec, shards=1, eager=output == "eager"), np.random.default_rng(3)
    tracemalloc.start()
    for first in range(0, count * ROWS, ROWS):
        rows = [range(first, first + ROWS), ["k"] * ROWS, rng.random(ROWS), ["x" * TEXT] * ROWS]
        query.run([pa.table(rows, schema=SCHEMA)])
        query.told.clear()
        del rows
        print(*held(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
