"""Hypothesis profiles, markers and the Spark session that the tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What the examples share with the tests, such as generators of disorder; after all else.
sys.path.append(str(Path(__file__).parent.parent / "examples"))

# The doctests of modules that are compiled as they are (see setup.py) run as they are compiled.
os.environ["PY_IGNORE_IMPORTMISMATCH"] = "1"

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=200, **COMMON)
settings.register_profile("ci", max_examples=60, derandomize=True, print_blob=True, **COMMON)
settings.register_profile("deep", max_examples=2000, **COMMON)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: needs a Spark session (Java 17 or 21)")
    package = Path(__file__).parent.parent / "mta"
    stale = [path.name for path in package.rglob("*.py") if _is_stale(path)]
    if stale:
        raise pytest.UsageError(f"build again, what is compiled is older: {', '.join(stale)}")


def _is_stale(path: Path) -> bool:
    """Whether a module of Python is younger than what was compiled from it (see setup.py)."""
    made = path.parent.glob(f"{path.stem}.*.so")
    return any(path.stat().st_mtime > each.stat().st_mtime for each in made)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses the session is a test of Spark, so one process starts it (see scripts/check)."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark():
    """One small local session for the whole run."""
    sql = pytest.importorskip("pyspark.sql", reason="the [spark] extra is not installed")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("mta-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def rocksdb(spark):
    """What streams need of the session, for one test."""
    from spark_streams import session_of_streams

    with session_of_streams(spark):
        yield
