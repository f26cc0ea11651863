"""The examples of docs/spark.md, run in the tests' Spark session."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytestmark = pytest.mark.spark

PAGE = Path(__file__).parent.parent / "docs" / "spark.md"
OPTIONS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",
    "spark.sql.shuffle.partitions": "2",
}


def test_examples(spark):
    before = {name: spark.conf.get(name, None) for name in OPTIONS}
    for name, value in OPTIONS.items():
        spark.conf.set(name, value)
    try:
        failed, attempted = doctest.testfile(
            str(PAGE), module_relative=False, globs={"spark": spark}
        )
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    assert attempted > 20
    assert failed == 0
