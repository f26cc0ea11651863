"""Streams on Spark, output="eager": answers as of each micro-batch, in the end the final ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import agg
from mta.errors import SpecError

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")

from shard_queries import SCHEMA, Query, micro_batches, on_time  # noqa: E402
from spark_bridge import state, streaming  # noqa: E402
from spark_bridge.ahead import alike  # noqa: E402
from test_spark_streaming_shards import ROLLING, SPECS  # noqa: E402

EAGER = {name: SPECS[name] for name in ROLLING if name != "every"}
NAMES = [name for name, _ in SPECS["time"].aggs]


def value(row):
    return repr([row[name] for name in NAMES])


@pytest.mark.parametrize("name", EAGER)
@settings(max_examples=10)
@given(micro_batches(), st.lists(st.sampled_from([None, "cold", "failed"]), min_size=7, max_size=7))
def test_every_micro_batch_tells_what_a_batch_so_far_would(name, batches, mishaps):
    spec = EAGER[name]
    query, known = Query(spec, eager=True), {}
    for number, (parts, mishap) in enumerate(zip(batches, mishaps, strict=False)):
        heard = len(query.told)
        query.run(parts, mishap)
        before = dict(known)
        for row in told_since(query, heard):
            assert row["revision"] == (known[row["i"]][0] + 1 if row["i"] in known else 1)
            assert row["i"] not in known or known[row["i"]][1] != value(row)  # else it is no news
            known[row["i"]] = row["revision"], value(row)
        kept, _ = on_time(spec, batches[: number + 1])
        if any(len(part) for part in parts):
            want = replace(spec, progress=None)(kept).to_pylist()
            now = {row["i"]: value(a) for row, a in zip(kept.to_pylist(), want, strict=True)}
            assert {i: told for i, (_, told) in known.items()} == now
        else:
            assert {i: told for i, (_, told) in known.items()} == {
                i: told for i, (_, told) in before.items()
            }
    heard = len(query.told)
    query.lull()
    for row in told_since(query, heard):
        known[row["i"]] = row["revision"], value(row)
    kept, late = on_time(spec, batches)
    want = replace(spec, progress=None)(kept).to_pylist()
    now = {row["i"]: value(a) for row, a in zip(kept.to_pylist(), want, strict=True)}
    assert {i: told for i, (_, told) in known.items()} == now
    assert sorted(row["i"] for row in query.output("late")) == sorted(row["i"] for row in late)


def told_since(query, heard):
    """What has come out since so many calls."""
    whole, query.told = query.told, query.told[heard:]
    rows = query.output("answers")
    query.told = whole
    return rows


def test_rows_that_nothing_late_touches_are_told_once():
    query = Query(SPECS["time"], eager=True)
    for start in range(0, 300, 10):
        t = np.arange(start, start + 10)
        rows = {"t": t, "k": ["a", "b"] * 5, "x": t * 0.1, "i": t}
        query.run([pa.table(rows, schema=SCHEMA)])
    query.lull()
    rows = query.output("answers")
    assert len(rows) == 300
    assert {row["revision"] for row in rows} == {1}
    state.COPIES.held.clear()


REFUSED = [
    (ROLLING["every"], "output: 'eager' can't be had with every="),
    (ROLLING["time"].late("revise", within="5i"), "output: 'eager' revises answers up to"),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_what_can_not_be_told_ahead_is_refused(spec, message):
    with pytest.raises(SpecError, match=message):
        streaming.check(spec.watermark("1i").agg(n=agg.count()), None, output="eager")
    with pytest.raises(SpecError, match=r"output: must be one of \('final', 'eager'\)"):
        streaming.check(spec.watermark("1i").agg(n=agg.count()), None, output="soon")


def test_values_are_alike_bit_by_bit():
    nan = float("nan")
    one = pa.table({"x": [1.0, nan, 0.0, None, None], "l": [[1], [nan], [], None, [2]]})
    other = pa.table({"x": [1.0, nan, -0.0, None, 0.0], "l": [[1], [nan], [], None, None]})
    assert alike(one, other, ["x"]).tolist() == [True, True, False, True, False]
    assert alike(one, other, ["l"]).tolist() == [True, True, True, True, False]
