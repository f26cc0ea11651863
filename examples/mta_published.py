"""What the MTA paper measured, on its machine: the numbers that its text states.

Villalba, Berral, Carrera, Constant-time sliding window framework with reduced memory footprint and
efficient bulk evictions, IEEE TPDS 30(3), 2019, §5. Java 8 on Apache Storm ("rapids"), where values
and partials are objects; two Xeon E5-2630 v4 of 2.2 GHz, 128 GB; the key-value store is Couchbase
on three more machines.
"""

from __future__ import annotations

MACHINE = "Java 8 on Apache Storm, 2 x Xeon E5-2630 v4 at 2.2 GHz"

NAMES = {
    "Naive": "Recompute",
    "Local LMTA": "LogMTA",
    "DABA": "DABA",
    "Local AMTA": "AMTA",
    "KVS LMTA": "StoredLogMTA",
    "KVS AMTA": "StoredAMTA",
}
"""The columns of Table 2, and what ``mta.fifo`` calls them. KVS: on a key-value store."""

TABLE_2: dict[str, dict[str, float]] = {
    analytic: dict(
        zip(("Naive", "KVS LMTA", "Local LMTA", "DABA", "KVS AMTA", "Local AMTA"), row, strict=True)
    )
    for analytic, row in {
        "sum": (3.69e8, 14_320, 10_341, 4_288, 6_253, 4_163),
        "mean": (3.26e8, 14_027, 10_378, 4_389, 6_111, 4_033),
        "geometric mean": (2.83e8, 15_267, 11_166, 4_795, 6_198, 4_183),
        "std": (3.5e8, 15_439, 12_934, 4_880, 6_131, 3_864),
        "max": (2_554, 8_501, 6_188, 3_500, 2_886, 1_763),
        "longest run": (19_294, 22_306, 19_794, 10_027, 7_350, 6_476),
    }.items()
}
"""Mean latency in nanoseconds, windows of at most 2^20, a series of 62,208,000 updates."""

BULK_WORST_US = {"Local AMTA": 455.0, "Local LMTA": 258.0, "KVS AMTA": 5_000.0, "Naive": 2e6}
"""Microseconds, the worst eviction of 1 .. 2^23 - 1 of 2^23 (KVS and Naive: "around")."""

BULK_DABA_LOSES = 2**20 - 1
"""From so many dropped on DABA takes longer than Naive."""

MEMORY_CAPACITY = 2**25
MEMORY_FULL_MIB = {
    "Naive": 16 * 1024, "DABA": 32 * 1024, "Local LMTA": 32 * 1024, "Local AMTA": 32 * 1024,
    "KVS LMTA": 512, "KVS AMTA": 512,
}  # fmt: skip
"""The heap with which a window of 2^25 values came to be full, in MiB."""

DIMENSIONS_ONE = 4_895
DIMENSIONS_SLOPE = 411
DIMENSIONS_SHARED = 4_158
"""KVS AMTA, 2^15 values: ns with one count, ns a count more, and ns that all counts share."""
