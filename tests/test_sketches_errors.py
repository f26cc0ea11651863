"""What sketches refuse, and what they say."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("kind", ["HLL_4", "HLL_6", "HLL_8"])
@pytest.mark.parametrize("lg_k", [4, 7, 12])
def test_hll_sketches_of_every_kind_are_read(kind, lg_k):
    lib = sketches.library()
    for n in (0, 1, 7, 8, 100, 300, 20_000):
        theirs = lib.hll_sketch(lg_k, getattr(lib, kind))
        for i in range(n):
            theirs.update(i)
        sketch = Hll(lg_k)
        ours = sketch.extend(sketch.zero(), range(n))
        for data in (theirs.serialize_compact(), theirs.serialize_updatable()):
            both = sketch.combine(sketch.from_bytes(data), ours)
            assert sketch.lower(both, [("estimate", None)]) == sketch.lower(
                sketch.combine(ours, ours), [("estimate", None)]
            )


@given(data=st.data())
@pytest.mark.parametrize("sketch", [*FAMILIES, Hll(4)], ids=repr)
def test_changed_bytes_are_refused_or_read_but_never_crash(sketch, data):
    lib = sketches.library()
    n = data.draw(st.sampled_from([0, 1, 8, 200, 3000]))
    values = [str(i) for i in range(n)] if getattr(sketch, "source", "") == "text" else range(n)
    whole = sketch.to_bytes(sketch.extend(sketch.zero(), sketch.wrap(values)))
    if isinstance(sketch, Hll):  # the kinds that we do not write
        theirs = lib.hll_sketch(sketch.lg_k, data.draw(st.sampled_from([lib.HLL_4, lib.HLL_6])))
        for i in range(n):
            theirs.update(i)
        whole = data.draw(st.sampled_from([whole, bytes(theirs.serialize_compact())]))
    changed = bytearray(whole)
    for _ in range(3):
        changed[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(0, 255))
        changed[data.draw(st.integers(0, min(50, len(whole) - 1)))] ^= data.draw(
            st.integers(0, 255)
        )
    try:
        read = sketch.from_bytes(bytes(changed[: data.draw(st.integers(0, len(whole)))]))
    except DataError:
        return
    sketch.join(sketch.zero(), sketch.wrap([]), read)
