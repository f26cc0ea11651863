"""What SlideM's authors measured, on their machine: the numbers that the text states.

Mendes, Bizarro, Marques, Overcoming memory limitations in high-throughput event-based applications,
ICPE 2013, §5 and appendix A: SlideM in Pulse, an engine in Java, with a heap of 1 GB.
"""

from __future__ import annotations

from typing import NamedTuple

MACHINE = "Pulse, Java, 2 x Xeon E5420 at 2.5 GHz (8 cores), 4 disks in 2 RAID-0 arrays"


class Injected(NamedTuple):
    """A line of Table 1. ADQL: the disks' average queue."""

    rate: int  # rows a second
    space_gb: float
    mean_ms: float
    max_ms: float
    cpu: float  # percent, of all 8 cores
    adql: float


TABLE_1 = (
    Injected(50_000, 4.7, 0.009, 2.9, 5, 0.016),
    Injected(100_000, 9.4, 0.012, 3.6, 13, 0.035),
    Injected(150_000, 14.1, 0.007, 3.9, 23, 0.056),
    Injected(200_000, 18.7, 0.012, 16.7, 37, 0.071),
    Injected(250_000, 23.5, 0.008, 14.4, 69, 0.103),
    Injected(300_000, 28.2, 0.008, 18.9, 100, 0.145),
)
"""VWAP by symbol over an hour, an answer at every row of 28 bytes, a pool of 2 blocks."""

DISK_MB = 16  # MB a second, at 300,000 rows a second
BLOCK = 65536

CALL_RATE = 1000  # rows a second
CALL_MEMORY_GB = 2
CALL_CRASH_HOURS = {"1W": 3, "2LA": 1}
"""The windows in memory only ended with an out-of-memory error before so many hours."""

SHARED_WINDOWS = (2, 4, 8, 16, 32)
SHARED_RATE = 5000  # rows a second
SHARED_RANGE = (3600, 7200)  # seconds
SHARED_MEMORY = 512 * 2**20
SHARED_SPACE, SHARED_REQUESTS = 24, 22
"""SSM: up to so many times less space, and fewer requests, with 32 windows."""
