"""Short forms for one column, in the spirit of bottleneck and polars: array in, array out.

``mta.rolling_sum(x, 1024)`` is a row window, ``mta.rolling_sum_by(x, by=ts, range="1h")`` one over
time. There is a pair for every function of ``mta.agg`` that reads columns, made from its table:

>>> import numpy as np, mta
>>> mta.rolling_max(np.array([3, 1, 2, 0]), 2).tolist()
[3, 3, 2, 2]
>>> days = np.array(["2026-01-01", "2026-01-02", "2026-01-05"], "M8[D]")
>>> mta.rolling_mean_by(np.array([1.0, 3.0, 5.0]), by=days, range="2d").tolist()
[1.0, 2.0, 5.0]
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from mta import aggregates
from mta.arguments import no_whole, plain_number
from mta.errors import DataError, SpecError
from mta.functions import FUNCTIONS
from mta.specs import rolling

# What a short form takes beside its columns, and hands to ``mta.rolling`` …
_WINDOW = ("min_periods", "closed", "lag")
# … and one over time as well.
_BY_TIME = (*_WINDOW, "ties")

_DOC = """Rolling {fn}: ``mta.{call}.agg(agg.{fn}(...))`` of single columns.

Parameters
----------
{columns} : array, list, pandas or polars Series, pyarrow Array
    The values, in the order of the rows{order}.
{window}
{passed} : as in ``mta.rolling``
{options} : as in ``agg.{fn}``

Returns
-------
One answer per row, of the kind and with the index of {first}. For what it means, which errors it
raises and what it costs see ``agg.{fn}`` and ``mta.rolling``.
"""
_RANGE = 'by : the times, of the same kind; rows may be in any order\nrange : like "1h", or "60i"'


def _make(fn: str, by_time: bool) -> Callable[..., Any]:
    """The short form of one function."""
    options = (*FUNCTIONS[fn].options, "min_count", "nan")
    names = FUNCTIONS[fn].column_names[: FUNCTIONS[fn].least_columns or 1]
    aggregate = getattr(aggregates, fn)
    passed = _BY_TIME if by_time else _WINDOW
    signature = _signature(aggregate, names, by_time, passed)

    def short(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = dict(bound.arguments)
        columns = {name: given.pop(name) for name in names}
        window = {name: given.pop(name) for name in passed if name in given}
        extent, on = given.pop("range" if by_time else "window"), None
        if by_time:
            columns["by"], on = given.pop("by"), "by"
        elif extent is not None and not isinstance(plain_number(extent), int):
            told = f"rows are counted, and {extent!r} are none; mta.rolling_{fn}_by is over time"
            raise SpecError(f"window: {told}")
        elif extent is not None and (why := no_whole(plain_number(extent), 1)):
            raise SpecError(f"window: {why}")
        spec = rolling(extent, on=on, **window).agg(answer=aggregate(*names, **given))
        return _answer(spec, columns)

    short.__name__ = short.__qualname__ = f"rolling_{fn}_by" if by_time else f"rolling_{fn}"
    short.__module__ = __name__
    short.__signature__ = signature  # type: ignore[attr-defined]
    short.__doc__ = _DOC.format(
        fn=fn,
        call="rolling(range, on=by)" if by_time else "rolling(window)",
        columns=", ".join(names),
        first=names[0],
        order=" (of time, where given)" if by_time else "",
        window=_RANGE if by_time else "window : int\n    How many rows, the newest included.",
        passed=", ".join(passed),
        options=", ".join(name for name in signature.parameters if name in options),
    )
    return short


def _signature(
    aggregate: Callable[..., Any], names: tuple[str, ...], by_time: bool, passed: tuple[str, ...]
) -> inspect.Signature:
    kinds = inspect.Parameter
    extent = ("by", "range") if by_time else ("window",)
    first = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in (*names, *extent)]
    defaults = inspect.signature(rolling).parameters
    rest = [kinds(n, kinds.KEYWORD_ONLY, default=defaults[n].default) for n in passed]
    options = list(inspect.signature(aggregate).parameters.values())[len(names) :]
    rest += [p.replace(kind=kinds.KEYWORD_ONLY) for p in options if p.name not in ("order", "by")]
    return inspect.Signature(first + rest)


def _answer(spec: Any, columns: dict[str, Any]) -> Any:
    """The answer column of single columns, as what the first of them is."""
    for name, column in columns.items():
        if hasattr(column, "columns") or isinstance(column, (str, dict)):
            raise DataError(f"{name}: one column is needed, not a {type(column).__name__}")
    first = next(iter(columns.values()))
    kind = type(first).__module__.partition(".")[0]
    if kind == "pandas":
        pandas: Any = sys.modules["pandas"]
        frame = pandas.DataFrame({n: _aligned(n, c, first) for n, c in columns.items()})
        return spec(frame)["answer"].rename(getattr(first, "name", None))
    if kind == "polars":
        polars: Any = sys.modules["polars"]
        return spec(polars.DataFrame(columns))["answer"].alias(first.name)
    if kind == "pyarrow":
        pyarrow: Any = sys.modules["pyarrow"]
        return spec(pyarrow.table(columns)).column("answer").combine_chunks()
    return spec(columns)["answer"]


def _aligned(name: str, column: Any, first: Any) -> Any:
    """A pandas Series by its place, not by its index."""
    if len(column) != len(first):
        raise DataError(f"{name}: {len(column)} values beside {len(first)}")
    index = getattr(first, "index", None)
    return column.set_axis(index) if hasattr(column, "set_axis") else column


__all__ = []
for _fn in FUNCTIONS:
    if _fn not in ("count_all", "monoid"):  # which read no column, or any number
        for _by_time in (False, True):
            _short = _make(_fn, _by_time)
            globals()[_short.__name__] = _short
            __all__.append(_short.__name__)
