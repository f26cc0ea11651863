"""The same flights without us: DuckDB on the raw rows, by the definition of the window.

Nothing here uses mta or Spark, so that the two ways to an answer share no step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

# The schedule is local New York time without a zone; so are the departures. dep_time is only a
# clock ("2400" is one), without the day, so a departure is the scheduled one plus the delay.
_DEPARTURES = """
    create view departures as
    select *, scheduled + to_minutes(dep_delay) as departed
    from (
        select arrival, origin, carrier, dep_delay,
            make_timestamp(year, month, day, sched_dep_time // 100, sched_dep_time % 100, 0)
                as scheduled
        from flights
        where dep_time is not null
    )
"""

_BY_DEFINITION = """
    select s.arrival, count(d.arrival) as flights,
        avg(d.dep_delay) as mean, max(d.dep_delay) as max, stddev_samp(d.dep_delay) as std
    from sample s left join departures d
        on d.{by} = s.{by} and d.departed >= s.departed - interval '{length}'
        and d.departed < s.departed
    group by s.arrival
    order by s.arrival
"""


@dataclass(frozen=True)
class Arrivals:
    """What comes in: how much of it, and how far out of order."""

    flights: int
    departures: int
    late: float  # share of the departures that come in after one that left later
    median_hours: float  # how much later; half of the late ones by this or more
    max_hours: float

    def __str__(self) -> str:
        return (
            f"{self.flights:,} flights: {self.departures:,} departures, "
            f"{self.flights - self.departures:,} cancelled and left out.\n"
            f"They come in by schedule: {self.late:.1%} of the departures after one that left "
            f"later (median {self.median_hours:.1f} h, at most {self.max_hours:.1f} h later)."
        )


def open_flights(raw: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with the raw `flights` and the view `departures`."""
    con = duckdb.connect()
    con.from_parquet(str(raw)).create_view("flights")
    con.execute(_DEPARTURES)
    return con


def arrivals(con: duckdb.DuckDBPyConnection) -> Arrivals:
    """Count the flights, and measure their disorder."""
    row = con.execute("""
        with behind as (
            select epoch(max(departed) over (order by arrival) - departed) / 3600 as hours
            from departures
        )
        select (select count(*) from flights), count(*), coalesce(avg((hours > 0)::int), 0),
            coalesce(median(hours) filter (hours > 0), 0), coalesce(max(hours), 0)
        from behind
    """).fetchone()
    assert row is not None
    return Arrivals(*row)


def compare(con: duckdb.DuckDBPyConnection, answers: Path, windows: list[str], size: int) -> str:
    """Compute a sample of the answers once more; a line that says they agree.

    Raises
    ------
    SystemExit
        They do not; the message names the column, the row and both numbers.
    """
    con.execute(f"create table sample as from departures order by hash(arrival) limit {size}")
    worst = 0.0
    for window in windows:
        by, length = window.split("_")
        plain = con.execute(_BY_DEFINITION.format(by=by, length=length)).fetchnumpy()
        ours = con.execute(
            f"select a.* from '{answers}/*.parquet' a semi join sample using (arrival) "
            "order by arrival"
        ).fetchnumpy()
        for name in ("flights", "max", "mean", "std"):
            exact = name in ("flights", "max")
            column = f"{window}_{name}"
            worst = max(worst, _difference(column, ours[column], plain[name], exact))
    rows = con.execute("select count(*) from sample").fetchone()
    assert rows is not None
    return (
        f"Checked: all {4 * len(windows)} answers of {rows[0]:,} sampled departures agree with "
        "DuckDB's self-join of the raw rows\n(counts and maxima equal, means and deviations "
        f"within 1e-12; largest relative difference {worst:.0e})."
    )


def _difference(column: str, ours: np.ndarray, plain: np.ndarray, exact: bool) -> float:
    """The largest relative difference of two columns; ends the program if it is too large."""
    nulls = np.ma.getmaskarray(ours), np.ma.getmaskarray(plain)
    a, b = np.ma.filled(ours, 0).astype(float), np.ma.filled(plain, 0).astype(float)
    scale = np.maximum(np.abs(a), np.abs(b))
    relative = np.abs(a - b) / np.where(scale == 0, 1, scale)
    wrong = (nulls[0] != nulls[1]) | ~(relative <= (0 if exact else 1e-12))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise SystemExit(
            f"{column}: {wrong.sum():,} of {len(a):,} sampled answers differ from DuckDB's; the "
            f"first: {ours[i]!r}, not {plain[i]!r}"
        )
    return float(relative.max(initial=0))
