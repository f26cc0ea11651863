"""How much memory a process really takes for a window on a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("store_memory_child.py")
ROWS = 2**22  # 64 MB of state; by hand up to 2**25
LIMIT = 48  # MB above what the interpreter and its packages take before


@pytest.mark.parametrize(
    "url", ["rocksdb://{}?memory=8000000", "lmdb://{}?sync=never", "file://{}?sync=never"]
)
def test_what_is_resident(url, tmp_path):
    told = subprocess.run(
        [sys.executable, CHILD, url.format(tmp_path / "store"), str(ROWS)],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        text=True,
        check=True,
    ).stdout
    state, resident, anonymous, before, anonymous_before, _ = map(float, told.split())
    assert state == 64
    assert anonymous - anonymous_before < LIMIT
    # The pages that LMDB maps count as resident, and are the system's to take back.
    if not url.startswith("lmdb"):
        assert resident - before < LIMIT
