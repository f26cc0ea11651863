"""What is known of a card at each of its payments: the same features for training and serving.

For every payment, over the 24 hours and the 7 days of its card before it: how many payments, how
much in sum, at most and on average, and at how many merchants. ``closed="left"``: no payment sees
itself. For training they are computed in batch over all payments; for serving by a stream that
gets the payments a file at a time, out of order by minutes. Then both are compared: the same rows,
to the last bit of every double.

    python examples/card_fraud.py [--rows 20000]

The payments are made up (seeded): cards with habits of their own, days and nights, and one card in
fifty whose number is stolen, which shows in its features.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from live import Files, Line, open_live
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

import mta
import spark_bridge
from mta import agg
from spark_bridge.console import Progress

SCHEMA = "payment long, card string, merchant string, amount double, paid_at timestamp"
DAYS = 21
LATENESS = 600  # seconds; a payment comes in at most so long after it was made
START = np.datetime64("2026-03-02", "us")
FLUSH = {"payment": -1, "card": "", "merchant": "", "amount": 0.0}  # later than all others


def features(length: str) -> mta.Rolling:
    """Five answers about a card in the time before a payment."""
    return (
        mta.rolling(length, on="paid_at", by="card", closed="left")
        .watermark(f"{LATENESS}s")
        .agg(
            **{
                f"n_{length}": agg.count(),
                f"sum_{length}": agg.sum("amount"),
                f"max_{length}": agg.max("amount"),
                f"mean_{length}": agg.mean("amount"),
                f"merchants_{length}": agg.count_distinct("merchant"),
            }
        )
    )


SPECS = {length: features(length) for length in ("24h", "7d")}


# ---- payments ------------------------------------------------------------------------------------


def make_payments(rows: int, seed: int = 24) -> tuple[pa.Table, set[str]]:
    """Payments in the order in which they come in, and the cards that were stolen."""
    rng = np.random.default_rng(seed)
    cards = max(rows // 60, 1)
    stolen = rng.choice(cards, max(cards // 50, 1), replace=False)
    frauds = max(rows // 100 // len(stolen), min(rows, 5)) * len(stolen)
    honest, thieves = max(rows - frauds, 0), np.repeat(stolen, frauds // len(stolen))
    # A card's habits: how often, how much, and the few shops that it goes to most of the time.
    often = rng.gamma(2.0, size=cards)
    usual = rng.lognormal(3.2, 0.6, cards)
    card = rng.choice(cards, honest, p=often / often.sum())
    shop = card * 7 % 997 + rng.geometric(0.35, honest)
    amount = usual[card] * rng.lognormal(0.0, 0.7, honest)
    paid = rng.integers(0, DAYS, honest) * 86400 + day_times(rng, honest)
    # A thief tries small sums first, then buys in one shop after the other within two hours.
    step = np.tile(np.arange(frauds // len(stolen)), len(stolen))
    begin = np.repeat(rng.integers(10 * 86400, (DAYS - 1) * 86400, len(stolen)), step.max() + 1)
    size = np.where(step < 2, 1.0, 40 + 60.0 * step) * rng.lognormal(0.0, 0.3, len(step))
    table = as_table(
        np.concatenate([card, thieves]),
        np.concatenate([shop, 10_000 + rng.integers(0, 5000, len(step))]),
        np.concatenate([amount, size]),
        np.concatenate([paid, begin + step * 7200 / (step.max() + 1) + rng.random(len(step))]),
    )
    # They come in late by some seconds, and a few by minutes.
    late = np.minimum(rng.exponential(20, len(table)) ** 1.3, LATENESS - 1)
    arrived = table["paid_at"].to_numpy() + (late * 1e6).astype("m8[us]")
    table = table.take(pa.array(np.argsort(arrived, kind="stable")))
    table = table.add_column(0, "payment", pa.array(range(len(table))))
    return table, {name_of(number) for number in stolen.tolist()}


def day_times(rng: np.random.Generator, rows: int) -> NDArray[np.float64]:
    """Seconds of the day: lunch, the evening, and few at night."""
    peak = rng.choice([12.5, 18.5, 14.0], rows, p=[0.35, 0.35, 0.3])
    return (rng.normal(peak, np.where(peak == 14.0, 5.0, 1.6)) % 24) * 3600


def name_of(card: int) -> str:
    """A card's number as it is shown."""
    return f"4929-{card:06}"


def as_table(card: Any, shop: Any, amount: Any, paid: Any) -> pa.Table:
    """Rows as they are paid."""
    ts = START + (paid * 1e6).astype("m8[us]")
    return pa.table(
        {
            "card": [name_of(number) for number in card.tolist()],
            "merchant": [f"m{number}" for number in shop.tolist()],
            "amount": np.round(amount, 2),
            "paid_at": pa.array(ts, pa.timestamp("us", "UTC")),
        }
    )


# ---- training and serving ------------------------------------------------------------------------


def train(spark: SparkSession, payments: pa.Table) -> pa.Table:
    """All features in batch: one shuffle and one sort for both windows."""
    with Progress(spark, f"Training: {len(payments):,} payments in batch"):
        answered = spark_bridge.apply(list(SPECS.values()), spark.createDataFrame(payments))
        return answered.toArrow().sort_by("payment")


@dataclass
class Served:
    """What a stream has given, by micro-batch: one that is run again takes the place of itself."""

    batches: dict[int, pa.Table] = field(default_factory=dict)

    def write(self, frame: DataFrame, number: int) -> None:
        """The sink of ``foreachBatch``."""
        self.batches[number] = frame.toArrow()

    @property
    def rows(self) -> int:
        """So far."""
        return sum(map(len, list(self.batches.values())))

    def table(self) -> pa.Table:
        """Everything but the row that only made time go on."""
        made = pa.concat_tables(self.batches.values())
        return made.filter(pa.compute.greater_equal(made["payment"], 0)).sort_by("payment")


def serve(spark: SparkSession, payments: pa.Table, folder: Path, files: int) -> pa.Table:
    """The same by a stream of both windows; a file of payments is a micro-batch."""
    source, size = Files(folder / "payments"), -(-len(payments) // files)
    for start in range(0, len(payments), size):
        source.put(payments.slice(start, size))
    later = START + np.timedelta64(DAYS + 30, "D")
    source.put(pa.Table.from_pylist([{**FLUSH, "paid_at": later.item()}], payments.schema))
    served, stream = Served(), source.read(spark, SCHEMA, 1)
    out = spark_bridge.apply(list(SPECS.values()), stream, shards=2).writeStream
    out = out.foreachBatch(served.write).trigger(availableNow=True)
    query = out.option("checkpointLocation", str(folder / "checkpoint")).start()
    watch(query, served, len(payments))
    told = [p.observedMetrics["mta"] for p in query.recentProgress if "mta" in p.observedMetrics]
    if any(metrics["late"] for metrics in told):
        raise SystemExit(f"payments came later than {LATENESS} s")
    return served.table()


def answers(length: str) -> list[str]:
    """The names of a window's features."""
    return [name for name, _ in SPECS[length].aggs]


def watch(query: Any, served: Served, rows: int) -> None:
    """Tell how far the stream is, until it is done; a failure is raised here."""
    line, started = Line(), time.monotonic()

    def news() -> str:
        seconds = time.monotonic() - started
        return f"Serving: {rows:,} payments by a stream, {served.rows:,} answered, {seconds:.0f} s"

    while query.isActive:
        line.tell(news())
        time.sleep(0.3)
    query.awaitTermination()
    line.tell(news(), last=True)


def compare(trained: pa.Table, served: pa.Table) -> str:
    """Say that they are the same, row by row and bit by bit; or end the program."""
    if trained.column_names != served.column_names or len(trained) != len(served):
        raise SystemExit(f"{len(trained)} rows in batch, {len(served)} by the stream")
    for name in trained.column_names:
        if repr(trained[name].to_pylist()) != repr(served[name].to_pylist()):
            raise SystemExit(f"{name}: batch and stream differ")
    count = sum(len(answers(length)) for length in SPECS)
    return (
        f"Batch and stream agree: {len(trained):,} payments with {count} features each, "
        "to the last bit."
    )


def suspects(table: pa.Table, stolen: set[str], top: int = 8) -> str:
    """The cards whose last 24 hours are least like their 7 days, each at its worst payment."""
    known = table["paid_at"].to_numpy() >= START + np.timedelta64(7, "D")
    table = table.filter(pa.array(known))
    n, shops = (table[f"{name}_24h"].to_numpy() for name in ("n", "merchants"))
    usual = (table["n_7d"].to_numpy() - n) / 6
    strange = n * shops / (1 + usual) ** 2
    heads = f"{'card':14}{'at':13}{'24 h: payments':>18}{'merchants':>11}{'sum':>10}{'max':>9}"
    lines = [
        "The cards whose 24 hours before a payment are least like the 6 days before these:",
        heads + "   before, a day",
    ]
    seen: set[str] = set()
    for row in np.argsort(-strange, kind="stable").tolist():
        at = {name: table[name][row].as_py() for name in table.column_names}
        if at["card"] in seen or len(seen) == top or not at["n_24h"]:
            continue
        seen.add(at["card"])
        lines.append(
            f"{at['card']:14}{at['paid_at']:%d %b, %H:%M}{at['n_24h']:18}{at['merchants_24h']:11}"
            f"{at['sum_24h']:10,.0f}{at['max_24h']:9,.0f}{usual[row]:16.1f}"
            f"{'   stolen' if at['card'] in stolen else ''}"
        )
    hits = len(seen & stolen)
    lines.append(f"{hits} of these {len(seen)} were made up as stolen; {len(stolen)} were in all.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make payments, answer them both ways, compare, and show the most suspect cards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000, help="payments (20000)")
    parser.add_argument("--files", type=int, default=4, help="in which they come (4)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (local[2])")
    options = parser.parse_args(arguments)
    if options.rows < 100 or options.files < 1:
        parser.error("--rows: at least 100; --files: at least 1")
    payments, stolen = make_payments(options.rows)
    print(f"{len(payments):,} made-up payments of {DAYS} days, {len(stolen)} cards stolen.")
    spark = open_live("card fraud", options.master)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(spark, payments)
        served = serve(spark, payments, Path(folder), options.files)
    spark.stop()
    print(compare(trained, served))
    print("\n" + suspects(trained, stolen))


if __name__ == "__main__":
    main()
