"""A process whose memory the tests look at: a large window, slid, searched and cut, on a store.

Prints the bytes of state on the store and the most memory that was resident, in MB: all of it, and
without the pages of files (LMDB maps its file; its pages count as resident until the system wants
them back).
"""

from __future__ import annotations

import sys
import time

import numpy as np

from mta import agg, fifo

STEP = 1 << 15


def resident() -> tuple[float, float]:
    """MB of this process: all, and what is not of files."""
    with open("/proc/self/status") as lines:
        found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return tuple(int(found[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))


def main(url: str, rows: int) -> None:
    most = begun = resident()
    x = np.sin(np.arange(STEP))
    started = time.perf_counter()
    with fifo.StoredAMTA(agg.sum("x"), url) as w:
        for row in range(0, rows + rows // 8, STEP):
            w.slide(x, rows)
            if row % (1 << 18) == 0:
                most = tuple(map(max, most, resident()))
        size = len(w) * 16 * 4096 // 4095
        w.evict_many(rows // 3)
        w.evict_while(lambda total, old: total > old)
        w.query()
        most = tuple(map(max, most, resident()))
        seconds = time.perf_counter() - started
    print(size >> 20, *(round(value, 1) for value in (*most, *begun, seconds)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
