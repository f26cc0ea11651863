"""The same rows in other micro-batches, partitions and shards: batch = stream = local, bit for bit.

Times and keys of every type. The stateful processor runs without a query here (pyspark's
TwsTester), but for one stream whose keys Spark itself has to put into shards.
"""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.specs import Rolling

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
from shard_queries import Query  # noqa: E402
from spark_streams import Source  # noqa: E402

AGGS = {
    "n": agg.count(), "s": agg.sum("x"), "sd": agg.std("x"), "q": agg.median("x"),
    "f": agg.first("i"), "last": agg.last("i"), "hi": agg.max("x", nan="greatest"),
    "order": agg.list("i"),
}  # fmt: skip
UNITS = {
    pa.int32(): ("i", 1, 1),
    pa.date32(): ("d", 1, 86_400_000),
    pa.timestamp("us"): ("us", 1500, 1.5),
    pa.timestamp("us", "UTC"): ("us", 1500, 1.5),
}  # of a tick: the unit, how many, and in milliseconds
DISORDER = 9


def table_of(kind, rows=120, seed=3):
    """Rows out of order by less than the disorder, before and after 1970; ties, nulls, NaN."""
    rng = np.random.default_rng(seed)
    ticks = np.arange(rows) // 3 - 15 + rng.integers(0, DISORDER, rows)
    x = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 15, rows)
    x[rng.random(rows) < 0.05] = np.nan
    codes = rng.integers(0, 9, rows)
    texts = [None, "", "a", "ä", "0"]
    cents = [None, "0.00", "1.10", "-7.25"]
    numbers = [0.0, -0.0, float("nan"), np.uint64(0xFFF8000000000001).view(np.float64), None, 2.5]
    times = pa.array(ticks * UNITS[kind][1])
    return pa.table({
        "t": times.cast(pa.int32() if pa.types.is_date(kind) else times.type).cast(kind),
        "k": pa.array([texts[c % 5] for c in codes]),
        "cents": pa.array(
            [None if c is None else decimal.Decimal(c) for c in (cents[c % 4] for c in codes // 2)],
            pa.decimal128(9, 2),
        ),
        "number": pa.array([numbers[c % 6] for c in codes], pa.float64(), from_pandas=False),
        "x": pa.array(x, mask=rng.random(rows) < 0.1, from_pandas=False),
        "i": pa.array(range(rows), pa.int64()),
    })  # fmt: skip


def specs(kind, by):
    """A trailing window and one by number, of so many ticks."""
    unit, ticks, _ = UNITS[kind]

    def length(n):
        return f"{n * ticks}{unit}"

    trailing = mta.rolling(length(7), on="t", by=by)
    hopping = mta.hopping(length(10), slide=length(4), on="t", by=by)
    return {
        name: spec.watermark(length(DISORDER)).agg(**AGGS)
        for name, spec in {"rolling": trailing, "hopping": hopping}.items()
    }


def local(spec, table):
    """The lines of the local engine, over all rows at once; each row with its answers."""
    answers = spec(table)
    if isinstance(spec, Rolling):
        answers = pa.table([*table.columns, *answers.columns], [*table.column_names, *AGGS])
    return lines(answers)


def lines(table):
    names = sorted(set(table.column_names) - {"revision"})
    return sorted(repr([row[name] for name in names]) for row in table.to_pylist())


@pytest.mark.parametrize("by", [None, ("k", "cents")], ids=["no key", "two keys"])
@pytest.mark.parametrize("kind", UNITS, ids=str)
@settings(max_examples=12)
@given(st.data())
def test_cuts_and_shards_change_nothing(kind, by, data):
    table = table_of(kind)
    shards = data.draw(st.sampled_from([1, 2, 7]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=6)))
    batches = [
        (a, b, data.draw(st.integers(a, b)))
        for a, b in zip([0, *cuts], [*cuts, len(table)], strict=True)
    ]
    for spec in specs(kind, by).values():
        query = Query(spec, shards)
        for start, stop, middle in batches:
            query.run([table.slice(start, middle - start), table.slice(middle, stop - middle)])
        query.lull(10**11)
        got = query.output("answers")
        assert lines(pa.Table.from_pylist(got)) == local(spec, table)
        assert not query.output("late")


@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("micros", [0, 1, 250, 1500])
@settings(max_examples=15)
@given(st.data())
def test_a_delay_finer_than_the_watermark_is_kept_at_least(micros, zone, data):
    """Spark's watermark has milliseconds: no row is late that is not by the delay, and none is lost
    uncounted; what is complete by it is so for certain."""
    kind, start = pa.timestamp("us", zone), 1_700_000_000_000_123
    steps = data.draw(st.lists(st.integers(-900, 1100), min_size=1, max_size=40))
    ticks = start + np.cumsum([0, *steps])[1:]
    table = pa.table({"t": pa.array(ticks).cast(kind), "i": pa.array(range(len(ticks)))})
    size = data.draw(st.integers(1, 12))
    pieces = [table.slice(at, size) for at in range(0, len(table), size)]
    for spec in (mta.rolling("700us", on="t"), mta.tumbling("300us", on="t")):
        spec = spec.watermark(f"{micros}us").agg(seen=agg.list("i"))
        query = Query(spec)
        for piece in pieces:
            query.run([piece])
        query.lull(2 * start // 1000)
        late = {row["i"] for row in query.output("late")}
        for i in late:
            assert ticks[i] + micros < ticks[: i // size * size].max()
        made = [batch for batch in query.told if len(batch)]
        counts = [
            sum(int(batch[name].sum()) for batch in made) for name in ("late_rows", "received")
        ]
        assert counts == [len(late), len(ticks)]
        on_time = table.filter(pa.array([i not in late for i in range(len(ticks))]))
        got, want = query.output("answers"), spec(on_time).to_pylist()
        if isinstance(spec, Rolling):
            want = [{"i": i} | row for i, row in zip(on_time["i"].to_pylist(), want, strict=True)]
        names = sorted(want[0]) if want else []
        assert sorted(repr([row[n] for n in names]) for row in got) == sorted(
            repr([row[n] for n in names]) for row in want
        )


@pytest.mark.spark
@pytest.mark.usefixtures("rocksdb")
def test_spark_puts_equal_keys_into_one_shard(spark, tmp_path):
    """Zeros and NaN of any bits, decimals, nulls and texts; over times without a zone."""
    kind = pa.timestamp("us")
    table = table_of(kind, rows=200)
    spec = specs(kind, ("number", "cents", "k"))["rolling"]
    source = Source(spark, tmp_path)
    far = pa.table({"t": pa.array([10**15], pa.int64()).cast(kind), "i": [-1]})
    source.put(table.slice(0, 90))
    source.put(pa.concat_tables([table.slice(90), far], promote_options="default"))
    streamed = source.answer(spec, shards=7)
    streamed = streamed.filter(pc.not_equal(streamed["i"], -1))
    expected = local(spec, table)
    assert lines(streamed) == expected
    frame = spark.read.schema(source.read().schema).parquet(str(source.path / "in"))
    batch = spark_bridge.apply(spec, frame.where("i >= 0").orderBy("i")).toArrow()
    assert lines(batch) == expected
