"""A call centre, live: every 10 seconds, what the last hour was like, by queue.

Calls come in as they end, out of order by up to half a minute, a file every moment. A stream of
Spark answers windows of an hour that begin every 10 seconds (``mta.hopping("1h", slide="10s")``):
how many calls, how many were given up, the service level (taken within 20 seconds), the mean wait
and the wait that nine in ten did not exceed, the mean talk. A page shows the answers as they become
final, and reloads itself.

    python examples/call_centre.py [--output out/]      then open out/call_centre.html

The calls are made up (seeded): three queues with agents and callers who give up, a day from 8 to 18
o'clock in about 40 seconds, and an outage at 13:10, after which everybody calls the card desk.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import call_picture
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from live import Files, Line, open_live
from pyspark.sql import DataFrame

import mta
import spark_bridge
from mta import agg

SCHEMA = (
    "queue string, ended timestamp, wait double, talk double, given_up boolean, in_time boolean"
)
DAY = np.datetime64("2026-03-10T08:00", "us")
HOURS = 10
LATENESS = 30  # seconds
FIRST = 20  # calls that are there when the stream starts
OUTAGE = (5.17, 6.0, 2.4)  # from, until (hours after 8), times as many calls

KPIS = (
    mta.hopping("1h", slide="10s", on="ended", by="queue")
    .watermark(f"{LATENESS}s")
    .agg(
        calls=agg.count(),
        given_up=agg.mean("given_up"),
        in_time=agg.mean("in_time"),
        wait=agg.mean("wait"),
        wait_90=agg.quantile("wait", 0.9),
        talk=agg.mean("talk"),
    )
)


# ---- calls ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Queue:
    """Agents who take the calls of a kind; `load`: how busy they are at the usual peak."""

    name: str
    share: float
    load: float
    talk: float  # seconds, on average


QUEUES = (
    Queue("cards", 0.5, 0.80, 240.0),
    Queue("loans", 0.3, 0.84, 420.0),
    Queue("service", 0.2, 0.76, 300.0),
)


def make_calls(rows: int, seed: int = 10) -> pa.Table:
    """All calls of a day, in the order in which they come in."""
    rng = np.random.default_rng(seed)
    tables = [calls_of(rng, queue, int(rows * queue.share)) for queue in QUEUES]
    calls = pa.concat_tables(tables)
    late = np.minimum(rng.exponential(4.0, len(calls)), LATENESS - 1)
    arrived = calls["ended"].to_numpy() + (late * 1e6).astype("m8[us]")
    order = np.argsort(arrived, kind="stable")
    return calls.take(pa.array(order)).append_column("arrived", pa.array(arrived[order]))


def calls_of(rng: np.random.Generator, queue: Queue, calls: int) -> pa.Table:
    """Callers who wait for one of so many agents, or give up after a while."""
    starts = np.sort(call_times(rng, calls if queue.name != "cards" else int(calls * 0.87)))
    if queue.name == "cards":
        since, until, times = OUTAGE
        usual = len(starts) * (until - since) / HOURS
        more = rng.uniform(since * 3600, until * 3600, int(usual * (times - 1)))
        starts = np.sort(np.concatenate([starts, more]))
    agents = max(int(calls / HOURS / 3600 * 1.15 * queue.talk / queue.load), 1)
    free = [0.0] * agents
    patience = rng.exponential(240, len(starts)) + 10
    talks = rng.gamma(2.0, queue.talk / 2, len(starts))
    waits = np.zeros(len(starts))
    for call, start in enumerate(starts.tolist()):
        waits[call] = max(free[0] - start, 0.0)
        if waits[call] <= patience[call]:
            heapq.heapreplace(free, start + waits[call] + talks[call])
    given_up = waits > patience
    waits, talks = np.minimum(waits, patience), np.where(given_up, 0.0, talks)
    ended = DAY + ((starts + waits + talks) * 1e6).astype("m8[us]")
    return pa.table(
        {
            "queue": [queue.name] * len(starts),
            "ended": pa.array(ended, pa.timestamp("us", "UTC")),
            "wait": np.round(waits, 1),
            "talk": pa.array(np.round(talks, 1), mask=given_up),
            "given_up": given_up,
            "in_time": ~given_up & (waits <= 20),
        }
    )


def call_times(rng: np.random.Generator, calls: int) -> np.ndarray:
    """Seconds after 8: a peak at half past ten, a lower one at three."""
    tried = rng.uniform(0, HOURS, 4 * calls + 100)
    busy = 0.45 + 0.55 * np.exp(-(((tried - 2.5) / 1.6) ** 2))
    busy += 0.35 * np.exp(-(((tried - 7.0) / 1.5) ** 2))
    return tried[rng.random(len(tried)) * 1.1 < busy][:calls] * 3600


# ---- live ----------------------------------------------------------------------------------------


@dataclass
class Board:
    """The answers so far, and the page that shows them."""

    page: Path
    rows: dict[tuple[str, Any], dict[str, Any]] = field(default_factory=dict)
    drawn: float = 0.0

    def write(self, frame: DataFrame, number: int) -> None:
        """The sink of ``foreachBatch``: written again after a failure, answers are the same."""
        for row in frame.toArrow().to_pylist():
            self.rows[row["queue"], row["end"]] = row
        if time.monotonic() - self.drawn > 1.5:
            self.draw(live=True)

    def draw(self, live: bool) -> None:
        """Draw what is known; a page that is read meanwhile is the one before."""
        rows = sorted(self.rows.values(), key=lambda row: row["end"])
        # The first hour's windows are not full.
        since = (DAY + np.timedelta64(1, "h")).item()
        rows = [row for row in rows if row["end"].replace(tzinfo=None) >= since]
        if rows:
            call_picture.write_page(self.page, rows, [queue.name for queue in QUEUES], live)
        self.drawn = time.monotonic()

    def news(self) -> str:
        """The newest answers in a line."""
        newest = max((end for _, end in list(self.rows)), default=None)
        if newest is None:
            return "the first calls come in"
        parts = []
        for queue in QUEUES:
            row = self.rows.get((queue.name, newest))
            if row is not None:
                level = f"{row['in_time']:4.0%} in 20 s, wait {row['wait']:3.0f} s"
                parts.append(f"{queue.name} {row['calls']:,}, {level}")
        return f"the hour up to {newest:%H:%M:%S}: " + "; ".join(parts)


def replay(calls: pa.Table, source: Files, seconds: float, over: threading.Event) -> None:
    """The calls after the first ones in so many seconds: twice a second, a file with those that
    have come in."""
    arrived, rows = calls["arrived"].to_numpy(), calls.drop_columns(["arrived"])
    started, done = time.monotonic(), FIRST
    while done < len(rows) and not over.is_set():
        share = min((time.monotonic() - started) / seconds, 1.0)
        span = arrived[-1] - DAY
        now = DAY + span * share if share < 1 else arrived[-1]
        stop = int(arrived.searchsorted(now, "right"))
        if stop > done:
            source.put(rows.slice(done, stop - done))
            done = stop
        over.wait(0.5)


def run(calls: pa.Table, page: Path, seconds: float, master: str) -> Board:
    """Answer the calls while they come in."""
    spark = open_live("call centre", master)
    board, line, over = Board(page), Line(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        source = Files(Path(folder) / "calls")
        out = spark_bridge.apply(KPIS, source.read(spark, SCHEMA, 100), shards=2).writeStream
        query = (
            out.foreachBatch(board.write)
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .start()
        )
        line.tell("Starting the stream")
        source.put(calls.drop_columns(["arrived"]).slice(0, FIRST))
        query.processAllAvailable()  # from here on a micro-batch takes a second or two
        living = threading.Thread(target=replay, args=(calls, source, seconds, over), daemon=True)
        living.start()
        try:
            while living.is_alive() and query.isActive:
                line.tell(board.news())
                time.sleep(0.3)
            query.processAllAvailable()
        finally:
            over.set()
            living.join()
            query.stop()
        line.tell(board.news(), last=True)
    spark.stop()
    board.draw(live=False)
    return board


def check(board: Board, calls: pa.Table) -> str:
    """The answers of the stream beside those of the local engine, for the windows it gave."""
    local = KPIS(calls.drop_columns(["arrived"]))
    end = max(end for _, end in board.rows)
    local = local.filter(pc.less_equal(local["end"], pa.scalar(end, local["end"].type)))
    same = all(
        repr({name: board.rows[row["queue"], row["end"]][name] for name in row}) == repr(row)
        for row in local.to_pylist()
    )
    if not same or len(local) != len(board.rows):
        raise SystemExit("the stream and the local engine differ")
    return f"{len(local):,} windows, each as the local engine has it, to the last bit."


def main(arguments: Sequence[str] | None = None) -> None:
    """Make a day of calls, replay it, and keep the page up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=12_000, help="calls of the day (12000)")
    parser.add_argument("--seconds", type=float, default=30.0, help="the day takes so long (30)")
    parser.add_argument("--output", type=Path, default=Path("out"), help="directory (out)")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (local[2])")
    options = parser.parse_args(arguments)
    if options.rows < 100 or options.seconds <= 0:
        parser.error("--rows: at least 100; --seconds: more than 0")
    options.output.mkdir(parents=True, exist_ok=True)
    page = options.output / "call_centre.html"
    calls = make_calls(options.rows)
    print(f"{len(calls):,} made-up calls of a day. The page: {page} (it reloads itself)")
    board = run(calls, page, options.seconds, options.master)
    print(check(board, calls))
    print(f"Page and picture: {page}, {page.with_suffix('.png')}")


if __name__ == "__main__":
    main()
