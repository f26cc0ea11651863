"""Benchmarks: what a row costs here and elsewhere, measured in one run.

``python -m asv_benchmarks.compare`` prints tables of ratios; ``asv run`` (in this folder) keeps
a history. Both run the classes in ``benchmarks/``: one subject a file, one class a table.
"""

from __future__ import annotations

import os

# One thread for everyone. The libraries read these when they are imported, so here is the place.
for _limit in (
    "POLARS_MAX_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ.setdefault(_limit, "1")
