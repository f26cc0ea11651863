"""The Python examples of the README and the docs, run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/larger-than-memory.md",
        "docs/pushed-by-hand.md",
        "docs/sketches.md",
        "docs/user-monoids.md",
        "docs/windows-by-number.md",
    ],
)
def test_examples(name):
    if name == "docs/sketches.md":
        pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")
    failed, attempted = doctest.testfile(str(ROOT / name), module_relative=False)
    assert attempted > 0
    assert failed == 0
