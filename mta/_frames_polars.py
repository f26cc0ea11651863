"""polars in and out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mta._frames_objects import encode_objects
from mta.errors import DataError
from mta.frames import Answer, Column, Frame, null_column, plain_column

MANY = 2**16  # answers that are worth importing pyarrow for


class PolarsFrame(Frame):
    """A polars DataFrame."""

    def __init__(self, data: pl.DataFrame) -> None:
        self.data = data
        self.rows = data.height

    def names(self) -> list[str]:
        return list(self.data.columns)

    def column(self, name: str) -> Column:
        series = self.data[name]
        dtype = series.dtype
        valid = _validity(series)
        if dtype.is_temporal() and dtype != pl.Time:
            kind, unit = _temporal(dtype)
            ticks = series.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
            return Column(name, kind, np.ascontiguousarray(ticks), valid, unit, dtype)
        if dtype == pl.Null:
            return null_column(name, len(series), dtype)
        plain = dtype.is_float() or dtype.is_integer() or dtype == pl.Boolean
        if not plain or str(dtype) in ("Int128", "UInt128"):  # which old releases do not have
            return Column(name, "other", None, valid, dtype=dtype, native=series)
        return plain_column(name, _numbers(series), valid, dtype)

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        series = self.data[name]
        if series.dtype in (pl.String, pl.Binary) and find_spec("pyarrow"):
            from mta._frames_arrow import encode_arrow

            # Its dictionary takes half the time of a cast to Categorical, and shares no cache.
            return encode_arrow(name, series.to_arrow())
        if series.dtype in (pl.Categorical, pl.Enum):
            codes = series.to_physical()
        elif series.dtype == pl.String:
            codes = series.cast(pl.Categorical).to_physical()
        elif series.dtype == pl.Object:
            return encode_objects(name, np.array([*series.to_list(), None], object)[:-1])
        elif series.dtype.is_nested():
            raise DataError(f"column {name!r}: {series.dtype} is no key, nor is it counted")
        else:
            codes = series.rank("dense")
        return codes.cast(pl.Int64).fill_null(0).to_numpy(), _validity(series)

    def text_codes(self, name: str) -> tuple[NDArray[np.int64], int] | None:
        series = self.data[name]
        if series.dtype not in (pl.String, pl.Binary) or not find_spec("pyarrow"):
            return None
        from mta._frames_arrow import arrow_text_codes

        levels = getattr(pl, "CompatLevel", None)  # old releases copy
        return arrow_text_codes(
            series.to_arrow(compat_level=levels.newest()) if levels else series.to_arrow()
        )

    def one_column(self, native: Any) -> PolarsFrame:
        return PolarsFrame(native.alias("values").to_frame())

    def take(self, rows: NDArray[np.int64]) -> Any:
        return self.data[rows]

    @property
    def nbytes(self) -> int:
        return int(self.data.estimated_size())

    def select(self, names: list[str]) -> Any:
        return self.data.select(names)

    @staticmethod
    def join(data: list[Any]) -> Any:
        schemas = [frame.schema for frame in data]
        known = {n: t for schema in schemas for n, t in schema.items() if t != pl.Null}
        # A column of nulls takes the type of the others.
        return pl.concat(
            frame.cast({n: known[n] for n, t in schema.items() if t == pl.Null and n in known})
            for frame, schema in zip(data, schemas, strict=True)
        )

    @staticmethod
    def take_native(native: Any, rows: NDArray[np.int64]) -> Any:
        return native.gather(rows)

    @staticmethod
    def join_natives(old: Any, new: Any) -> Any:
        return pl.concat([old, new])

    @staticmethod
    def nulls_like(native: Any, count: int) -> Any:
        return pl.Series(native.name, [None] * count, native.dtype)

    @staticmethod
    def list_native(native: Any, rows: NDArray[np.int64]) -> list[Any]:
        values: list[Any] = native.gather(rows).to_list()
        return values

    def times_like(self, column: Column, unit: str) -> Column:
        unit = "ms" if unit == "s" else unit
        dtype = pl.Datetime(unit, getattr(column.dtype, "time_zone", None))  # type: ignore[arg-type]
        return Column(column.name, "time", None, unit=unit, dtype=dtype)

    def build(self, answers: list[Answer], at: NDArray[np.int64] | None = None) -> pl.DataFrame:
        made = [_series(a) for a in answers]
        # (The class looks into what it is given, which takes five times as long.)
        return made[0].to_frame().hstack(made[1:]) if made else pl.DataFrame()


def map_rows(
    run: Callable[[pl.DataFrame], pl.DataFrame], data: pl.LazyFrame, names: list[str]
) -> pl.LazyFrame:
    """What `run` will make of these columns of all rows. That it can is seen before, on no rows."""
    schema = data.collect_schema()
    answers = run(pl.DataFrame(schema=schema)).schema
    read = data.select(names) if names else data
    return read.map_batches(run, schema=answers)


def _validity(series: pl.Series) -> NDArray[np.bool_] | None:
    return series.is_not_null().to_numpy() if series.null_count() else None


def _numbers(series: pl.Series) -> NDArray[Any]:
    """The values; of null, any."""
    if series.null_count() == 0:
        return series.to_numpy()
    if not find_spec("pyarrow"):
        return series.fill_null(False if series.dtype == pl.Boolean else 0).to_numpy()
    from mta._frames_arrow import plain_values

    return plain_values(series.to_arrow())


def _temporal(dtype: Any) -> tuple[str, str]:
    if dtype == pl.Date:
        return "date", "d"
    return ("time" if dtype == pl.Datetime else "duration"), dtype.time_unit


def _series(answer: Answer) -> pl.Series:
    if answer.lengths is not None:
        return _lists(answer)
    if answer.rows:
        return _taken(answer)
    if answer.binary:
        return pl.Series(answer.name, answer.values.tolist(), pl.Binary)
    if answer.values.dtype == np.object_ and answer.like is None:
        return _objects(answer)
    series = _plain_series(answer)
    like = answer.like
    # (Of a column that had only nulls at first, and then others, the type is that of the values.)
    if like is not None and (like.dtype != pl.Null or series.null_count() == len(series)):
        series = (series.cast(pl.Int32) if like.kind == "date" else series).cast(like.dtype)
    return series


def _plain_series(answer: Answer) -> pl.Series:
    """Numbers; many of them without a copy, where pyarrow is there to hand them over."""
    if len(answer.values) >= MANY and answer.values.dtype.kind in "fiu" and find_spec("pyarrow"):
        import pyarrow as pa

        mask = None if answer.valid is None else ~answer.valid
        handed = pl.from_arrow(pa.array(answer.values, mask=mask))
        assert isinstance(handed, pl.Series)
        return handed.alias(answer.name)
    series = pl.Series(answer.name, answer.values)
    if answer.valid is not None:
        series = series.scatter(np.flatnonzero(~answer.valid), None)
    return series


def _objects(answer: Answer) -> pl.Series:
    """Python's values in the type that polars has for them, if it has one for all."""
    values = answer.values.tolist()
    if answer.valid is not None:
        known = answer.valid.tolist()
        values = [value if there else None for value, there in zip(values, known, strict=True)]
    try:
        return pl.Series(answer.name, values)
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(answer.name, values, dtype=pl.Object)


def _taken(answer: Answer) -> pl.Series:
    assert answer.like is not None
    rows = pl.Series(answer.values)
    if answer.valid is not None:
        rows = rows.scatter(np.flatnonzero(~answer.valid), None)
    series: pl.Series = answer.like.native.gather(rows).alias(answer.name)
    return series


def _lists(answer: Answer) -> pl.Series:
    assert answer.lengths is not None
    items = _series(answer.items)
    of = np.repeat(np.arange(len(answer.lengths)), answer.lengths)
    filled = pl.DataFrame({"of": of, "items": items}).group_by("of", maintain_order=True).all()
    every = pl.DataFrame({"of": np.arange(len(answer.lengths))})
    lists = every.join(filled, on="of", how="left", maintain_order="left")["items"]
    empty = pl.lit(pl.Series([[]], dtype=lists.dtype))
    null = np.zeros(len(lists), np.bool_) if answer.valid is None else ~answer.valid
    # Where there are no items the list is empty, unless the answer is null.
    kept = pl.when(lists.is_null() & ~pl.Series(null)).then(empty).otherwise(lists)
    return pl.select(kept.alias(answer.name)).to_series()
