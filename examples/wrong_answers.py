"""What pandas, polars, DuckDB and bottleneck answer where windows are hard, beside mta.

Every question is asked live, of the versions that are installed, about a handful of rows; the truth
is computed in rational arithmetic from the rows of the last window alone. The table is printed and
written to docs/peers.md.

    python examples/wrong_answers.py
"""

from __future__ import annotations

import datetime as dt
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bottleneck as bn
import duckdb
import numpy as np
import pandas as pd
import polars as pl

import mta

PEERS = ("pandas", "polars", "duckdb", "bottleneck")
TABLE = Path(__file__).parent.parent / "docs" / "peers.md"


@dataclass(frozen=True)
class Question:
    """One function over the last `rows` rows; what counts is the answer of the last row."""

    what: str
    fn: str
    values: tuple[Any, ...]
    rows: int
    others: tuple[float, ...] = ()  # a second column, for cov and corr

    @property
    def window(self) -> tuple[Any, ...]:
        """The rows that the last answer is made of."""
        return self.values[-self.rows :]


def around(spike: float, step: float = 0.1, offset: float = 0.0) -> tuple[float, ...]:
    """200 small values with a spike among them that left a window of 50 long ago."""
    small = [offset + step * (i * i % 17) for i in range(200)]
    return (*small[:60], spike, *small[60:])


TENTHS, THIRDS = around(1e16), tuple(x / 3 for x in around(1e16))
QUESTIONS = [
    Question("1e16 left 90 rows ago", "sum", TENTHS, 50),
    Question("1e16 left 90 rows ago", "mean", TENTHS, 50),
    Question("1e16 left 90 rows ago", "var", TENTHS, 50),
    Question("1e16 left 90 rows ago", "skew", TENTHS, 50),
    Question("1e16 left 90 rows ago", "kurt", TENTHS, 50),
    Question("1e16 left 90 rows ago", "cov", TENTHS, 50, THIRDS),
    Question("1e16 left 90 rows ago", "corr", TENTHS, 50, THIRDS),
    Question("1e200 left 90 rows ago", "var", around(1e200), 50),
    Question("infinity left 90 rows ago", "sum", around(math.inf), 50),
    Question("infinity left 90 rows ago", "std", around(math.inf), 50),
    Question("infinity left 90 rows ago", "max", around(math.inf), 50),
    Question("infinity is inside", "sum", (1.0, math.inf, 2.0), 2),
    Question("NaN left 90 rows ago", "sum", around(math.nan), 50),
    Question("NaN left 90 rows ago", "corr", around(math.nan), 50, THIRDS),
    Question("1e16 comes and is cancelled", "sum", (1e16, 1.0, -1e16), 3),
    Question("values near 1e9", "var", around(1e9, 0.1, 1e9), 50),
    Question("values near 1e9", "skew", around(1e9, 0.1, 1e9), 50),
    Question("values near 1e9", "kurt", around(1e9, 0.1, 1e9), 50),
    Question("values near 1e16", "std", (1e16, 1e16 + 2, 1e16 + 4), 3),
    Question("equal values after others", "std", (*around(1e8), *[0.1] * 60), 50),
    Question("whole numbers above 2^53", "max", (0, 2**53 + 1, 5), 2),
    Question("whole numbers above 2^53", "sum", (0, 2**53, 1), 2),
    Question("whole numbers above 2^53", "mean", (2**53, 2**53 + 1, 2**53 + 3), 3),
    Question("a sum beyond 64 bits", "sum", (2**62, 2**62), 2),
    Question("8-bit whole numbers", "sum", tuple(np.array([100, 100], np.int8)), 2),
]


# ---- the truth -------------------------------------------------------------------------------


def truth(q: Question) -> Any:
    """The exact answer, as a double where it is no whole number; None: it does not fit."""
    values = [v if isinstance(v, float) else int(v) for v in q.window]
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return {"sum": sum, "max": max, "mean": lambda v: sum(v) / len(v)}[q.fn](values)
    exact = [Fraction(v) for v in values]
    if q.fn == "max":
        return max(values)
    if q.fn == "sum" and isinstance(values[0], int):
        return sum(values) if -(2**63) <= sum(values) < 2**63 else None
    if q.fn in ("cov", "corr"):
        return _pair(q.fn, exact, [Fraction(v) for v in q.others[-q.rows :]])
    return _moments(q.fn, exact)


def _moments(fn: str, x: list[Fraction]) -> float:
    n, mean = len(x), sum(x) / len(x)
    m2, m3, m4 = (sum((v - mean) ** k for v in x) for k in (2, 3, 4))
    answers: dict[str, Callable[[], Any]] = {
        "sum": lambda: sum(x),
        "mean": lambda: mean,
        "var": lambda: m2 / (n - 1),
        "std": lambda: math.sqrt(m2 / (n - 1)),
        "skew": lambda: float(m3) * n * math.sqrt(n - 1) / (n - 2) / float(m2) ** 1.5,
        "kurt": lambda: (
            (n * (n + 1) * (n - 1) * m4 / m2**2 - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3))
        ),
    }
    return float(answers[fn]())


def _pair(fn: str, x: list[Fraction], y: list[Fraction]) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    if fn == "cov":
        return float(xy / (len(x) - 1))
    xx, yy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    return float(xy) / math.sqrt(xx * yy)


# ---- what is answered ------------------------------------------------------------------------


def ask_mta(q: Question) -> Any:
    """The short form, over an array."""
    columns = [np.array(c) for c in (q.values, q.others) if len(c)]
    return getattr(mta, f"rolling_{q.fn}")(*columns, q.rows)[-1]


def ask_pandas(q: Question) -> Any:
    """Series.rolling."""
    window = pd.Series(list(q.values), dtype=np.array(q.values).dtype).rolling(q.rows)
    if q.others:
        return getattr(window, q.fn)(pd.Series(list(q.others))).iloc[-1]
    return getattr(window, q.fn)().iloc[-1]


def ask_polars(q: Question) -> Any:
    """Series.rolling_… or polars.rolling_…."""
    if q.others:
        frame = pl.DataFrame({"x": q.values, "y": q.others})
        form = getattr(pl, f"rolling_{q.fn}")
        return frame.select(form("x", "y", window_size=q.rows)).to_series()[-1]
    series = pl.Series(np.array(q.values))
    name = {"kurt": "kurtosis"}.get(q.fn, q.fn)
    options = {"bias": False} if q.fn in ("skew", "kurt") else {}
    return getattr(series, f"rolling_{name}")(q.rows, **options)[-1]


def ask_duckdb(q: Question) -> Any:
    """A window function with a frame of rows."""
    names = {"mean": "avg", "var": "var_samp", "std": "stddev_samp", "skew": "skewness"}
    names |= {"kurt": "kurtosis", "cov": "covar_samp"}
    columns = {"x": np.array(q.values)} | ({"y": np.array(q.others)} if q.others else {})
    rows = pd.DataFrame({"i": range(len(q.values)), **columns})
    call = f"{names.get(q.fn, q.fn)}({', '.join(columns)})"
    query = f"select {call} over (order by i rows {q.rows - 1} preceding) from rows order by i"
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return connection.execute(query).fetchall()[-1][0]


def ask_bottleneck(q: Question) -> Any:
    """bottleneck.move_…."""
    form = getattr(bn, f"move_{q.fn}", None)
    if form is None:
        return "–"
    options = {"ddof": 1} if q.fn in ("var", "std") else {}
    return form(np.array(q.values), q.rows, **options)[-1]


ASK: dict[str, Callable[[Question], Any]] = {
    "mta": ask_mta,
    "pandas": ask_pandas,
    "polars": ask_polars,
    "duckdb": ask_duckdb,
    "bottleneck": ask_bottleneck,
}


def answer(name: str, q: Question) -> Any:
    """What one of them says; an error by its name."""
    try:
        return ASK[name](q)
    except Exception as error:  # whatever it raises is its answer
        return type(error).__name__


def is_right(got: Any, want: Any) -> bool:
    """Whole numbers exactly, others to 1e-12; to what does not fit, an error or a wider number."""
    if want is None:  # DuckDB's sums have 128 bits
        return (isinstance(got, str) and got != "–") or (type(got) is int and got >= 2**63)
    if isinstance(got, str) or got is None:
        return False
    if isinstance(want, int):
        return int(got) == want if got == got and not math.isinf(got) else False
    got = float(got)
    if math.isnan(want) or math.isinf(want):
        return repr(got) == repr(float(want))
    return got == want or abs(got - want) <= 1e-12 * abs(want)


# ---- the table -------------------------------------------------------------------------------


def show(value: Any) -> str:
    """A number as Python writes it, whatever its type."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    number = value.item() if hasattr(value, "item") else value
    return repr(number)


def table() -> list[list[str]]:
    """One line per question: who is right, and what the others say."""
    lines = []
    for q in QUESTIONS:
        want = truth(q)
        line = [q.what, q.fn, "an error" if want is None else show(want)]
        for name in ASK:
            got = answer(name, q)
            line.append(
                "–" if got == "–" else "right" if is_right(got, want) else f"**{show(got)}**"
            )
        lines.append(line)
    return lines


def markdown(lines: list[list[str]]) -> str:
    """The table as a page."""
    head = ["rows", "of", "truth", *ASK]
    rows = [head, ["---"] * len(head), *lines]
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    return (
        "# Where others go wrong\n\n"
        "Made by `python examples/wrong_answers.py`, which asks all of them live and computes the\n"
        "truth in rational arithmetic. Each line is one small input; what counts is the answer of\n"
        "the last row. Right is the exact whole number, or within 1e-12 relative. What a library\n"
        "lacks is marked –; pandas takes NaN and infinity for missing values, by design.\n\n"
        f"{body}\n\n{versions}, Python {platform.python_version()}, {dt.date.today():%B %Y}.\n"
    )


def main() -> None:
    """Ask, print, write."""
    page = markdown(table())
    TABLE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
