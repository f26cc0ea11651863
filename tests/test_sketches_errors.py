"""What sketches refuse, and what they say."""

from __future__ import annotations

import sys

import pytest

from mta import sketches
from mta._kernel import Counter
from mta.errors import DataError, SpecError
from mta.sketches import Frequent, Hll, Quantiles, Theta, make_sketch_kernel

pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")

FAMILIES = [
    Quantiles(50),
    Quantiles(50, "int"),
    Hll(9),
    Theta(6),
    Frequent(30),
    Frequent(30, "text"),
]


def test_what_cannot_be_is_refused():
    for make in (
        lambda: Quantiles(7), lambda: Quantiles(200.0), lambda: Quantiles(source="text"),
        lambda: Hll(3), lambda: Hll(22), lambda: Theta(True), lambda: Theta(source="bytes"),
        lambda: Frequent(0), lambda: Frequent(source="texts"),
        lambda: make_sketch_kernel(Hll(), Counter([]), [("quantile", 0.5)]),
    ):  # fmt: skip
        with pytest.raises(SpecError):
            make()
    for sketch in FAMILIES:
        for data in (b"", b"abcdefgh" * 4, sketch.to_bytes(sketch.zero())[:3]):
            with pytest.raises(DataError, match=f"bytes of a {sketch.family} sketch"):
                sketch.from_bytes(data)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    sketches.library.cache_clear()
    try:
        for make in (Hll, Theta, Frequent):
            with pytest.raises(ImportError, match=r"pip install 'mta-windows\[sketches\]'"):
                make()
        assert Quantiles().to_bytes(Quantiles().lift(1.0))  # needs no package
    finally:
        sketches.library.cache_clear()
