"""Data in and out: pandas, polars, pyarrow, Arrow streams and dicts of NumPy arrays.

Each kind has one adapter that turns a column into plain 8-byte NumPy arrays and a null mask, and
answers back into a frame of the same kind. Nothing else in the package knows what a frame is.
No library is imported unless the data came from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mta._keys import factorize, filled, has_least
from mta.errors import ColumnError, DataError

# NumPy's names of the units that times are kept in, and ours.
TIME_UNITS = {"D": "d", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
# Coarser ones are told in seconds.
_COARSE_UNITS = ("Y", "M", "W", "h", "m")
# The kinds of plain types, and the 8-byte type that holds their values, by the letter of NumPy.
_PLAIN = {
    "f": ("float", np.dtype(np.float64)),
    "i": ("int", np.dtype(np.int64)),
    "u": ("uint", np.dtype(np.uint64)),
    "b": ("bool", np.dtype(np.int64)),
}
_SOURCES = {"float": "float", "null": "float", "uint": "uint"}


class Column(NamedTuple):
    """One column as the engine takes it.

    kind : "float", "int", "uint", "bool", "time", "date", "duration", "other", or "null" where
        nothing tells the type, which then is any
    values : float64, int64 or uint64; 0 where the value is null; None for "other"
    valid : False where the value is null, or None where none is
    unit : of a time, date or duration ("d", "s", "ms", "us", "ns")
    dtype : the native type, to make answers of the same type
    native : of "other": the column as the frame has it, which its adapter takes values from
    """

    name: str
    kind: str
    values: NDArray[Any] | None
    valid: NDArray[np.bool_] | None = None
    unit: str | None = None
    dtype: Any = None
    native: Any = None

    @property
    def source(self) -> str:
        """What the kernels call the type."""
        return _SOURCES.get(self.kind, "int")

    def slice(self, start: int, stop: int) -> Column:
        """The rows from `start` to before `stop`, without a copy."""
        values, valid, native = self.values, self.valid, self.native
        return self._replace(
            values=None if values is None else values[start:stop],
            valid=None if valid is None else valid[start:stop],
            native=None if native is None else native[start:stop],
        )

    @property
    def zoned(self) -> bool:
        """Whether these are times of a zone."""
        plain = getattr(self.dtype, "pyarrow_dtype", self.dtype)
        return any(getattr(plain, name, None) is not None for name in ("tz", "time_zone"))

    @property
    def numeric(self) -> bool:
        """Whether the values can be added."""
        return self.kind in ("float", "int", "uint", "bool", "null")


class Answer(NamedTuple):
    """One column of answers, as 8-byte values and where they are not null.

    like : a column whose native type the answer takes
    rows : the values are places in `like`, whose native values are the answer
    lengths : the answers are lists of so many items; `values` are the items of all of them
    binary : the values are byte strings in an array of objects, None where null
    """

    name: str
    values: NDArray[Any]
    valid: NDArray[np.bool_] | None = None
    like: Column | None = None
    rows: bool = False
    lengths: NDArray[np.int64] | None = None
    binary: bool = False

    @property
    def items(self) -> Answer:
        """The items of all lists as one column."""
        return self._replace(valid=None, lengths=None)


def plain_column(
    name: str, data: NDArray[Any], valid: NDArray[np.bool_] | None = None, dtype: Any = None
) -> Column:
    """A column from a NumPy array of any type that has an 8-byte form."""
    given = data.dtype
    dtype = given if dtype is None else dtype
    if given.kind in "mM":
        return _time_column(name, data, valid, dtype)
    if given.kind not in _PLAIN or given.itemsize > 8:
        return Column(name, "other", None, valid, dtype=dtype)
    kind, wide = _PLAIN[given.kind]
    values = data if given is wide else data.astype(wide)
    return _filled(Column(name, kind, np.ascontiguousarray(values), valid, None, dtype))


def null_column(name: str, rows: int, dtype: Any = None) -> Column:
    """A column of nothing but nulls."""
    valid = np.zeros(rows, np.bool_) if rows else None
    return Column(name, "null", np.zeros(rows), valid, dtype=dtype)


def _time_column(
    name: str, data: NDArray[Any], valid: NDArray[np.bool_] | None, dtype: Any
) -> Column:
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    data = np.ascontiguousarray(data)
    if has_least(data.view(np.int64)):  # NaT is the least number
        valid = ~np.isnat(data) if valid is None else valid & ~np.isnat(data)
    kind, unit, plain = _time_type(data.dtype)
    if unit is None:
        return Column(name, "other", None, valid, dtype=dtype)
    values = data if plain is None else data.astype(plain)
    return _filled(Column(name, kind, values.view(np.int64), valid, unit, dtype))


@lru_cache(maxsize=64)
def _time_type(dtype: Any) -> tuple[str, str | None, Any]:
    """Of times of a NumPy type: the kind, the unit (None: none of ours holds them), and the type
    in which they are told in it (None: their own)."""
    letter, plain = dtype.kind, None
    unit, step = np.datetime_data(dtype)
    if unit in _COARSE_UNITS and not (letter == "m" and unit in "YM"):
        unit, plain = "s", np.dtype(f"{letter}8[s]")
    elif step != 1:
        plain = np.dtype(f"{letter}8[{unit}]")
    kind = "duration" if letter == "m" else ("date" if unit == "D" else "time")
    return kind, TIME_UNITS.get(unit), plain


def _filled(column: Column) -> Column:
    """Nulls become 0, which is what the kernels of sums need them to be."""
    valid = column.valid
    if valid is None or column.values is None:
        return column
    if valid.all():
        return column._replace(valid=None)
    return column._replace(values=filled(column.values, np.ascontiguousarray(valid)))


class Frame:
    """What the engine asks of data of any kind."""

    rows: int
    data: Any  # what it adapts

    def names(self) -> list[str]:
        """The columns' names."""
        raise NotImplementedError

    def column(self, name: str) -> Column:
        """The column as plain arrays."""
        raise NotImplementedError

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Codes of a column that is "other", equal for equal values, and where it is not null."""
        raise NotImplementedError

    def text_codes(self, name: str) -> tuple[NDArray[np.int64], int] | None:
        """Dense group numbers of a column of texts in Arrow's buffers; None of any other."""
        return None

    def one_column(self, native: Any) -> Frame:
        """A frame of the same kind with one column, whose native values these are."""
        raise NotImplementedError

    def build(self, answers: list[Answer], at: NDArray[np.int64] | None = None) -> Any:
        """Answers as data of the same kind; `at`: the rows they are of (None: all)."""
        raise NotImplementedError

    def times_like(self, column: Column, unit: str) -> Column:
        """A column of times of this or a finer unit, otherwise of the type of this one."""
        return Column(column.name, "time", None, unit=unit, dtype=np.dtype(f"M8[{unit}]"))

    # Rows that are kept from one frame to the next. (`Column.native` also takes slices.)

    def take(self, rows: NDArray[np.int64]) -> Any:
        """These rows of the data, of the same kind."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the data takes, or nearly so."""
        raise NotImplementedError

    def select(self, names: list[str]) -> Any:
        """These columns of the data, of the same kind."""
        raise NotImplementedError

    @staticmethod
    def join(data: list[Any]) -> Any:
        """Data of one kind and with the same columns, one after the other."""
        raise NotImplementedError

    @staticmethod
    def take_native(native: Any, rows: NDArray[np.int64]) -> Any:
        """These values of a column that has no 8-byte ones."""
        return native.take(rows)

    @staticmethod
    def join_natives(old: Any, new: Any) -> Any:
        """The values of two columns, one after the other."""
        raise NotImplementedError

    def native_like(self, column: Column, like: Column) -> Column:
        """A column without 8-byte values, whose native ones `join_natives` can put after these.

        Raises
        ------
        DataError
            Its type is too different.
        """
        return column

    @staticmethod
    def nulls_like(native: Any, count: int) -> Any:
        """So many nulls as values of such a column."""
        raise NotImplementedError

    @staticmethod
    def list_native(native: Any, rows: NDArray[np.int64]) -> list[Any]:
        """The values at these places as Python objects."""
        raise NotImplementedError

    def build_numbered(self, answers: list[Answer], numbers: NDArray[np.int64]) -> Any:
        """Answers of rows that came in other data, too; `numbers` are those rows'."""
        return self.build(answers)

    def require(self, name: str, argument: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.names():
            known = ", ".join(map(str, self.names())) or "none"
            raise ColumnError(f"{argument}: no column {name!r}; there are: {known}")

    def key_codes(self, names: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        """Dense group numbers of the rows by several key columns, in order of appearance."""
        codes, groups = self._codes_of(names[0])
        for name in names[1:]:
            more, count = self._codes_of(name)
            codes, groups = factorize(codes * count + more)  # both are below the number of rows
        return codes, groups

    def _codes_of(self, name: str) -> tuple[NDArray[np.int64], int]:
        texts = self.text_codes(name)
        if texts is not None:
            return texts
        values, valid = self.key_values(name)
        if values.dtype.kind == "f":
            # One zero and one NaN, whatever their bits.
            values = np.where(np.isnan(values), np.nan, values + 0.0)
        codes, groups = factorize(np.ascontiguousarray(values).view(np.int64))
        if valid is None:
            return codes, groups
        # Null is a key of its own, whatever was stored under it.
        return factorize(np.where(valid, codes, np.int64(groups)))

    def key_values(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """8-byte values that are equal for equal keys, and where the key is not null."""
        column = self.column(name)
        if column.values is None:
            return self.encode(name)
        return column.values, column.valid


def open_frame(data: Any) -> Frame:
    """The adapter for `data`; an adapter is its own.

    Raises
    ------
    DataError
        `data` is of no kind that is known.
    """
    if isinstance(data, Frame):
        return data
    kind: Any = type(data)
    adapter = _adapter(kind)
    if adapter is not None:
        return adapter(data)
    if is_lazy(data):
        raise DataError("a polars LazyFrame holds no rows yet; call .collect() first")
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        from mta._frames_arrow import ArrowFrame

        return ArrowFrame(data)
    raise DataError(
        f"can't read a {type(data).__module__}.{type(data).__qualname__}; give a pandas or polars "
        "DataFrame, a pyarrow Table or RecordBatch, or a dict of NumPy arrays"
    )


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> Callable[[Any], Frame] | None:
    """What opens data of this type; None: not its type tells."""
    if issubclass(kind, dict):
        from mta._frames_numpy import NumpyFrame

        return NumpyFrame
    if _is_a(kind, "pandas", "DataFrame"):
        from mta._frames_pandas import PandasFrame

        return PandasFrame
    if _is_a(kind, "polars", "DataFrame"):
        from mta._frames_polars import PolarsFrame

        return PolarsFrame
    return None


def batches_of(data: Any) -> Iterable[Any]:
    """Batches as they are, a frame as the only one."""
    named = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame"),
             ("pyarrow", "Table"), ("pyarrow", "RecordBatch"))  # fmt: skip
    if isinstance(data, dict) or any(_is_a(type(data), *each) for each in named):
        return [data]
    return iter(data) if hasattr(data, "__iter__") else [data]


def is_lazy(data: Any) -> bool:
    """Whether `data` is a polars LazyFrame."""
    return _is_a(type(data), "polars", "LazyFrame")


def run_later(run: Callable[[Any], Any], data: Any, names: list[str]) -> Any:
    """The LazyFrame of what `run` makes of a LazyFrame's rows, of which it reads these columns."""
    from mta._frames_polars import map_rows

    return map_rows(run, data, names)


def _is_a(kind: type, library: str, name: str) -> bool:
    """Whether this is a class of a library, or made from it; then the library has been imported."""
    cls = getattr(sys.modules.get(library), name, None)
    return cls is not None and issubclass(kind, cls)
