"""Sketches as monoids over windows: approximate quantiles, distinct counts and heavy hitters.

One class per family says how its partials are made, combined and lowered:

=============  ==========================  ================================================
family         answers                     the partial
=============  ==========================  ================================================
`Quantiles`    quantiles                   a KLL sketch (``mta._kll``; coins by row)
`Hll`          distinct values             an HLL_8 sketch of ``datasketches``
`Theta`        distinct values             a theta sketch of ``datasketches``
`Frequent`     most frequent values        a frequent items sketch of ``datasketches``
=============  ==========================  ================================================

All give and take the bytes of Apache DataSketches, which Spark SQL's own sketch functions read and
write. With ``merge=True`` the values are such bytes, and the window merges them.

``datasketches`` is imported when a sketch is first needed that it computes.
"""

# What a method does that redefines one is said in the base class.
# ruff: noqa: D102

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mta._kernel import Counter
from mta._kll import KINDS, Kll
from mta._sketch_bytes import check_hll
from mta._sketch_kernel import Items, SketchKernel, Wanted
from mta.errors import DataError, SpecError

_Ints = NDArray[np.int64]


@cache
def library() -> ModuleType:
    """The package ``datasketches``.

    Raises
    ------
    ImportError
        It is not installed; the message says how to get it.
    """
    try:
        import datasketches  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(
            "this sketch needs the package datasketches: pip install 'mta-windows[sketches]'"
        ) from error
    return datasketches  # type: ignore[no-any-return,unused-ignore]


# ---- the families ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Sketch:
    """A monoid of sketches: what every family has.

    A partial belongs to whoever made it. `combine`, `join`, `copy` and `lower` change none;
    `extend` may change the one it is given, and gives back the one to go on with.
    """

    merge: bool = field(default=False, kw_only=True)  # the values are the bytes of sketches

    family: ClassVar[str]
    answers: ClassVar[tuple[str, ...]]  # what can be lowered
    block: ClassVar[int]  # rows between two suffixes; see SketchKernel

    def __post_init__(self) -> None:
        if self.family != "quantiles":
            library()

    def zero(self, seed: int = 0) -> Any:
        """The sketch of nothing. seed: of its coins, where it tosses any."""
        raise NotImplementedError

    def lift(self, value: Any) -> Any:
        """The sketch of one value: a number, a text, or with `merge` the bytes of a sketch."""
        return self.extend(self.zero(), self.wrap([value]))

    def wrap(self, values: Sequence[Any]) -> Any:
        """A few Python values in the form that `extend` takes."""
        return list(values)

    def combine(self, a: Any, b: Any) -> Any:
        """The sketch of both."""
        return self.extend_with(self.copy(a), [b])

    def values(self, cells: _Ints, items: Items | None) -> Any:
        """The values of 8-byte cells, in the form that `extend` takes.

        items : where cells are codes, what they stand for
        """
        raise NotImplementedError

    def extend(self, partial: Any, values: Any) -> Any:
        """The partial with some values more. May change and give back the one it was given."""
        if self.merge:
            return self.extend_with(partial, map(self.from_bytes, values))
        return self.extend_by(partial, values)

    def extend_by(self, partial: Any, values: Any) -> Any:
        """`extend` by the values themselves."""
        raise NotImplementedError

    def extend_with(self, partial: Any, others: Iterable[Any]) -> Any:
        """`extend` by other partials, which stay as they are."""
        raise NotImplementedError

    def copy(self, partial: Any) -> Any:
        """Another partial like this one."""
        raise NotImplementedError

    def join(self, suffix: Any, values: Any, prefix: Any) -> Any:
        """A fresh partial to be lowered: `suffix`, then some values, then `prefix`."""
        return self.extend_with(self.extend(self.copy(suffix), values), [prefix])

    def lower(self, partial: Any, wanted: Sequence[Wanted]) -> list[Any]:
        """The answers to (what, argument) pairs."""
        raise NotImplementedError

    def to_bytes(self, partial: Any) -> bytes:
        """As Apache DataSketches writes it and Spark SQL reads it."""
        raise NotImplementedError

    def from_bytes(self, data: bytes) -> Any:
        """The partial of these bytes, whoever wrote them.

        Raises
        ------
        DataError
            They are no sketch of this family.
        """
        try:
            return self.read(bytes(data))
        except Exception as error:
            raise DataError(f"not the bytes of a {self.family} sketch ({error})") from error

    def read(self, data: bytes) -> Any:
        """`from_bytes` with the errors of the library."""
        raise NotImplementedError


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise SpecError(message)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Quantiles(Sketch):
    """Quantiles by KLL: ("quantile", q), a cell of the column's own type, or ("bytes", None).

    k : a rank is off by more than ``2.3 / k^0.97`` or so of n with a probability of 1 %
        (1.33 % for 200; ``kll_doubles_sketch.get_normalized_rank_error``); 8 to 65535
    source : "float", "int" or "uint"; "int" writes the bytes of a sketch of longs (Spark's bigint)

    NaN has no rank and is left out, as Spark does. The answer to q is a value of the window: the
    least with at least q n of all values at or below it, exactly so up to k values.

    A coin decides which half of a level survives. Its sequence starts from the row number within
    the key's run of overlapping windows, so answers are a function of windows and values, however
    they were chunked; a library's own sketches toss another coin on every run.

    Memory: about 3 k items of 8 bytes. Cost: 30 ns a value, 2.5 us a merge, 1 us the quantiles;
    some 12 us a row in a window, whatever its size.
    """

    k: int = 200
    source: str = "float"

    family = "quantiles"
    answers = ("quantile", "bytes")
    block = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(_is_whole(self.k) and 8 <= self.k <= 65535, f"k must be 8 to 65535, not {self.k!r}")
        _check(self.source in KINDS, f"source must be one of {tuple(KINDS)}, not {self.source!r}")

    def zero(self, seed: int = 0) -> Kll:
        return Kll(self.k, self.source, seed)

    def wrap(self, values: Sequence[Any]) -> Any:
        if self.merge:
            return list(values)
        return np.array(values, {"float": "f8", "int": "i8", "uint": "u8"}[self.source]).view("i8")

    def values(self, cells: _Ints, items: Items | None) -> Any:
        if self.merge:
            return _looked_up(cells, items)
        return np.ascontiguousarray(cells)

    def extend_by(self, partial: Kll, values: _Ints) -> Kll:
        partial.extend(values)
        return partial

    def extend_with(self, partial: Kll, others: Iterable[Kll]) -> Kll:
        for other in others:
            partial.merge(other)
        return partial

    def copy(self, partial: Kll) -> Kll:
        return partial.copy()

    def lower(self, partial: Kll, wanted: Sequence[Wanted]) -> list[Any]:
        cells = iter(partial.quantiles([q for what, q in wanted if what == "quantile"]))  # type: ignore[misc]
        return [next(cells) if what == "quantile" else partial.to_bytes() for what, _ in wanted]

    def to_bytes(self, partial: Kll) -> bytes:
        return partial.to_bytes()

    def read(self, data: bytes) -> Kll:
        return Kll.from_bytes(data, self.source)


@dataclass(frozen=True)
class Hashed(Sketch):
    """What the sketches of sets share: ("estimate", None) distinct values, or ("bytes", None).

    lg_k : accuracy: about 2^lg_k hashes or registers are kept
    source : "float", "int", "uint" or "text"

    Values are hashed as DataSketches does everywhere (MurmurHash3, seed 9001): integers and times
    as int64, floats as doubles, of which all NaN are one value and -0.0 is 0.0, texts as UTF-8. So
    Spark's sketches of the same bigint, string (and, theta only, double) values hold the same
    hashes, and a union does not count twice. An int and a float of the same value are two. As
    everywhere in DataSketches, an empty text is not counted.

    The estimate is a function of the set of values in the window, and of nothing else.
    """

    lg_k: int = 12
    source: str = "int"

    least_lg: ClassVar[int]
    most_lg: ClassVar[int]
    answers = ("estimate", "bytes")
    block = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.least_lg, self.most_lg
        _check(
            _is_whole(self.lg_k) and low <= self.lg_k <= high,
            f"lg_k must be {low} to {high}, not {self.lg_k!r}",
        )
        _check_source(self.source)

    def values(self, cells: _Ints, items: Items | None) -> list[Any]:
        if items is not None:
            return _looked_up(cells, items)
        return list((cells.view(np.float64) if self.source == "float" else cells).tolist())

    def lower(self, partial: Any, wanted: Sequence[Wanted]) -> list[Any]:
        return [
            self.to_bytes(partial) if what == "bytes" else math.floor(partial.get_estimate() + 0.5)
            for what, _ in wanted
        ]


def _check_source(source: str) -> None:
    known = (*KINDS, "text")
    _check(source in known, f"source must be one of {known}, not {source!r}")


def _looked_up(cells: _Ints, items: Items | None) -> list[Any]:
    known: Items = () if items is None else items  # which they are where all cells are null
    return [known[code] for code in cells.tolist()]


def _update_all(update: Callable[[Any], None], values: Iterable[Any]) -> None:
    """The fastest way to call a method for each value: 70 ns apiece, nearly all in the library."""
    deque(map(update, values), maxlen=0)


@dataclass(frozen=True)
class Hll(Hashed):
    """Distinct values by HyperLogLog: 2^lg_k bytes, relative standard error 1.04 / 2^(lg_k / 2).

    The partial is an HLL_8 sketch, as Spark's is; exact to about 2^(lg_k - 3) 3/4 values. The
    library's own estimate of a sketch that was never merged (HIP) depends on the order in which the
    values came; ours is the composite estimator always, a function of the registers.

    Cost: 80 ns a value; an answer 20 us with 4096 registers, bytes 35 us.
    """

    family = "HLL"
    least_lg = 4
    most_lg = 21

    def zero(self, seed: int = 0) -> Any:
        return library().hll_sketch(self.lg_k, library().HLL_8)

    def extend_by(self, partial: Any, values: Any) -> Any:
        _update_all(partial.update, values)
        return partial

    def extend_with(self, partial: Any, others: Iterable[Any]) -> Any:
        return self._sketch(self._union(partial, *others))

    def copy(self, partial: Any) -> Any:
        # By way of the bytes: 0.6 us, against 28 us for the union of one.
        return library().hll_sketch.deserialize(partial.serialize_updatable())

    def combine(self, a: Any, b: Any) -> Any:
        return self.extend_with(a, [b])

    def join(self, suffix: Any, values: Any, prefix: Any) -> Any:
        if self.merge:
            return self._union(suffix, *map(self.from_bytes, values), prefix)
        return self._union(suffix, prefix, values=values)

    def _union(self, *sketches: Any, values: Iterable[Any] = ()) -> Any:
        """The union, whose estimate depends on its registers alone.

        It does once two arrays of registers have been merged, if only one with itself.
        """
        union = library().hll_union(self.lg_k)
        _update_all(union.update, sketches)
        _update_all(union.update, values)
        arrays = [sketch for sketch in sketches if self._has_registers(sketch)]
        if len(arrays) == 1:
            union.update(arrays[0])
        elif not arrays and union.get_estimate() > 0.5 * self._most_coupons:
            made = union.get_result(library().HLL_8)
            if self._has_registers(made):
                union.update(made)
        return union

    @property
    def _most_coupons(self) -> float:
        """Up to so many values a sketch is a plain list of hashes."""
        return 8 if self.lg_k < 8 else 0.75 * 2 ** (self.lg_k - 3)

    def _has_registers(self, sketch: Any) -> bool:
        size = sketch.get_compact_serialization_bytes()
        return bool(size >= 40 + 2**sketch.lg_config_k)

    def _sketch(self, partial: Any) -> Any:
        return partial.get_result(library().HLL_8) if _is_union(partial) else partial

    def to_bytes(self, partial: Any) -> bytes:
        return bytes(self._sketch(partial).serialize_updatable())

    def read(self, data: bytes) -> Any:
        check_hll(data)
        return library().hll_sketch.deserialize(data)


def _is_union(partial: Any) -> bool:
    return isinstance(partial, library().hll_union)


@dataclass(frozen=True)
class Theta(Hashed):
    """Distinct values by a theta sketch: 2^lg_k hashes of 8 bytes, standard error 2^(-lg_k / 2).

    Eight times the memory of `Hll` and slower, but its bytes can also be intersected and
    subtracted. Exact up to 2^lg_k values. Bytes, too, are a function of the set of values alone.

    Cost: 80 ns a value; an answer 0.2 to 0.5 ms with 4096 hashes.
    """

    family = "theta"
    least_lg = 5
    most_lg = 26

    def zero(self, seed: int = 0) -> Any:
        return library().update_theta_sketch(self.lg_k)

    def extend_by(self, partial: Any, values: Any) -> Any:
        if isinstance(partial, library().update_theta_sketch):
            _update_all(partial.update, values)
            return partial
        return self.extend_with(partial, [self.extend_by(self.zero(), values)])

    def extend_with(self, partial: Any, others: Iterable[Any]) -> Any:
        union = library().theta_union(self.lg_k)
        union.update(partial)
        _update_all(union.update, others)
        return union.get_result()

    def copy(self, partial: Any) -> Any:
        return partial.__copy__()

    def combine(self, a: Any, b: Any) -> Any:
        return self.extend_with(a, [b])

    def join(self, suffix: Any, values: Any, prefix: Any) -> Any:
        if self.merge:
            return self.extend_with(suffix, [*map(self.from_bytes, values), prefix])
        return self.extend_with(suffix, [self.extend_by(self.zero(), values), prefix])

    def to_bytes(self, partial: Any) -> bytes:
        if isinstance(partial, library().update_theta_sketch):
            partial = self.extend_with(partial, [])
        return bytes(partial.serialize())

    def read(self, data: bytes) -> Any:
        return library().compact_theta_sketch.deserialize(data)


@dataclass(frozen=True)
class Frequent(Sketch):
    """Heavy hitters: ("items", k), ("counts", k) of the k most frequent, or ("bytes", None).

    max_items : values to keep count of; up to so many distinct ones the counts are exact, beyond
        that off by at most about ``2.7 n / max_items`` (``get_epsilon_for_lg_size``)
    source : "float", "int", "uint" or "text"

    Only values are listed that surely are more frequent than that error, most frequent first, ties
    in the order of the values. Items are cells (of floats: their bits), or texts. All NaN are one
    item, and -0.0 is 0.0. Counts are upper bounds, as in Spark's ``approx_top_k``.

    The bytes are those of the field `sketch` in Spark's ``approx_top_k_accumulate`` over bigint,
    double, timestamp or string: an items sketch with the count of nulls (none) behind it, which
    DataSketches ignores. Deterministic: which items survive depends on the order of rows and
    merges, and both are those of the window.

    Memory: at most 25 bytes an item and the texts. Cost: 80 ns a value; an answer 0.3 us for every
    value that is kept count of.
    """

    max_items: int = 10_000
    source: str = "int"

    family = "frequent items"
    answers = ("items", "counts", "bytes")
    block = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(
            _is_whole(self.max_items) and 1 <= self.max_items <= 1_000_000,
            f"max_items must be 1 to 1,000,000, not {self.max_items!r}",
        )
        _check_source(self.source)

    @property
    def lg_size(self) -> int:
        """Binary logarithm of the largest map, which is filled to three quarters."""
        return max(3, math.ceil(math.log2(math.ceil(self.max_items / 0.75))))

    def zero(self, seed: int = 0) -> Any:
        return self._type(self.lg_size)

    @property
    def _type(self) -> Any:
        lib = library()
        return lib.frequent_strings_sketch if self.source == "text" else lib.frequent_items_sketch

    def wrap(self, values: Sequence[Any]) -> Any:
        if self.merge or self.source == "text":
            return list(values)
        kinds = {"float": "f8", "int": "i8", "uint": "u8"}
        return self.values(np.array(values, kinds[self.source]).view(np.int64), None)

    def values(self, cells: _Ints, items: Items | None) -> list[Any]:
        if items is not None:
            return _looked_up(cells, items)
        if self.source == "float":
            floats = cells.view(np.float64) + 0.0  # -0.0 becomes 0.0
            floats[np.isnan(floats)] = np.nan
            cells = floats.view(np.int64)
        return list(cells.tolist())

    def extend_by(self, partial: Any, values: Any) -> Any:
        _update_all(partial.update, values)
        return partial

    def extend_with(self, partial: Any, others: Iterable[Any]) -> Any:
        for other in others:
            # The library skips one that kept no item, and loses how many values it had dropped.
            if other.is_empty() and other.total_weight > 0:
                partial, other = self.copy(other), partial
            partial.merge(other)
        return partial

    def copy(self, partial: Any) -> Any:
        return partial.__copy__()

    def lower(self, partial: Any, wanted: Sequence[Wanted]) -> list[Any]:
        rows = None
        if any(what != "bytes" for what, _ in wanted):
            kind = library().frequent_items_error_type.NO_FALSE_POSITIVES
            rows = sorted(partial.get_frequent_items(kind), key=self._order)
        return [self._answer(partial, rows, what, k) for what, k in wanted]

    def _answer(self, partial: Any, rows: Any, what: str, k: Any) -> Any:
        if what == "bytes":
            return self.to_bytes(partial)
        return [row[0 if what == "items" else 1] for row in rows[:k]]

    def _order(self, row: tuple[Any, int, int, int]) -> tuple[Any, ...]:
        item = row[0]
        if self.source == "float":
            value = float(np.int64(item).view(np.float64))
            return -row[1], math.isnan(value), value
        return -row[1], item % 2**64 if self.source == "uint" else item

    def to_bytes(self, partial: Any) -> bytes:
        nulls = bytes(8)
        if self.source == "text":
            return bytes(partial.serialize()) + nulls
        return bytes(partial.serialize(library().PyLongsSerDe())) + nulls

    def read(self, data: bytes) -> Any:
        if self.source == "text":
            return self._type.deserialize(data)
        return self._type.deserialize(data, library().PyLongsSerDe())


# ---- over windows ----------------------------------------------------------------------------


def make_sketch_kernel(
    sketch: Sketch,
    counter: Counter,
    wanted: Sequence[Wanted],
    items: Items | None = None,
) -> SketchKernel:
    """A batch kernel that lowers (what, argument) pairs from the sketches of windows."""
    for what, _ in wanted:
        _check(what in sketch.answers, f"{type(sketch).__name__} has no answer {what!r}")
    return SketchKernel(counter, sketch, wanted, items)
