"""The experiments of the SlideM paper (Mendes, Bizarro, Marques, 2013), measured again.

Windows larger than memory: a call centre's KPIs, VWAP at every trade, and several windows over one
repository. Tables are printed and pictures written; docs/paper-slidem.md says what the paper says
and why ours differs. Files are written to the folder for temporary files, some GB in all.

    python examples/paper_slidem.py [--only calls vwap ssm] [--quick] [--out out/]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import slidem_calls
import slidem_picture
import slidem_published as paper
import slidem_shared
import slidem_vwap
from paper_report import Job, Table, add_options, measure, number
from slidem_calls import Size
from slidem_streams import ATTRIBUTES, KEYS

from mta import costs

RATES = (50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 500_000, 750_000, 1_000_000)
BEYOND = (1_250_000, 1_500_000, 2_000_000, 3_000_000)  # until they can't be answered
MEMORIES = (None, slidem_vwap.MEMORY, 2**24)
ROW_OF_CALL = 94  # bytes


# ---- the call centre -------------------------------------------------------------------------


def experiment_calls(job: Job) -> list[Path]:
    """144 KPIs of 24 hours, every 10 seconds: in memory, and on files with 1W and with 2LA."""
    sizes = {
        "calls-day": job.of(slidem_calls.DAY, Size("a few minutes", 5, 300, 60)),
        "calls-dense": job.of(
            slidem_calls.DENSE, Size("a minute of the paper's rate", 1000, 60, 10)
        ),
    }
    pictures = []
    for name, size in sizes.items():
        found = slidem_calls.compared(
            size, job.of(slidem_calls.HOW, slidem_calls.HOW[::2]), job.progress
        )
        title = f"Call centre, {size.name}: {size.rows:,} rows, {size.rate:g} a second of its time"
        job.show(title, _calls(found))
        pictures.append(job.picture(name))
        slidem_picture.calls(found, title, pictures[-1])
    print(
        f"\nAnswers were the same. At {paper.CALL_RATE:,} rows a second a day takes, by formula "
        f"2.2 (1W), {_one_window() / 1e9:.1f} GB, and by 2.1 (2LA) {_two_levels() / 1e9:.1f} GB.\n"
        f"The paper: in memory only it ended before {paper.CALL_CRASH_HOURS['1W']} hours with 1W "
        f"and {paper.CALL_CRASH_HOURS['2LA']} with 2LA, of {paper.CALL_MEMORY_GB} GB; with SlideM "
        f"it went on ({paper.MACHINE})."
    )
    return pictures


def _calls(found: Sequence[slidem_calls.Run]) -> Table:
    head = [
        "windows", "answers", "MB held", "MB the process grew", "MB of files", "CPU µs a row",
        "CPU, times in memory", "ms a push", "slowest", "blocks written", "read", "formula 3.1",
    ]  # fmt: skip
    first = found[0]
    lines = [
        [
            r.how, f"{r.answers:,}", number(r.held[-1] / 1e6), number(max(r.anonymous) / 1e6),
            number(r.disk / 1e6), number(1e6 * r.cpu / r.rows), number(r.cpu / first.cpu),
            number(sum(r.pushed_ms) / len(r.pushed_ms)), number(max(r.slowest_ms)),
            f"{r.written:,}", f"{r.read:,}", number(r.expected),
        ]
        for r in found
    ]  # fmt: skip
    return [head, *lines]


def _one_window() -> float:
    groups = sum(KEYS.values()) / len(KEYS)
    answers = 3 * len(KEYS) * len(ATTRIBUTES)
    return costs.space_one_window(answers, groups, 86400, paper.CALL_RATE, ROW_OF_CALL, 16)


def _two_levels() -> float:
    """With the groups that 10,000 rows drawn evenly have."""
    rows = 10 * paper.CALL_RATE
    seen = [groups * (1 - (1 - 1 / groups) ** rows) for groups in KEYS.values()]
    mean, operators = sum(seen) / len(KEYS), 104
    groups = sum(KEYS.values()) / len(KEYS)
    return costs.space_two_levels(operators, mean, groups, 86400, 10, 16, 20, 16)


# ---- VWAP ------------------------------------------------------------------------------------


def experiment_vwap(job: Job) -> list[Path]:
    """VWAP at every row, by rate (Table 1); and what a row costs in big pushes."""
    window, seconds = job.of((10.0, 10.0), (0.2, 0.1))
    found: list[slidem_vwap.Injected] = []
    for way in slidem_vwap.WAYS:
        for rate in job.of((*RATES, *BEYOND), RATES[:1]):
            job.progress(f"vwap: {way}, {rate:,} rows a second")
            push = slidem_vwap.PUSH[way]
            found.append(slidem_vwap.injected(way, rate, window, seconds, push))
            if found[-1].saturated:
                break
        mine = [r for r in found if r.way == way]
        job.show(
            f"VWAP, {way}: a window of {window:g} s, pushes of {mine[0].push:,} rows, "
            f"{slidem_vwap.MEMORY // 1024} KB",
            _injected(mine),
        )
    job.show(f"Table 1 of the paper, on its machine ({paper.MACHINE})", _table_1())
    rows, pushes = job.of((2_000_000, 15), (100_000, 1))
    costs_found = slidem_vwap.costs_of_a_row(
        job.of(MEMORIES, MEMORIES[:2]), rows, pushes, job.progress
    )
    job.show(
        f"A row, in pushes of {slidem_vwap.PIECE:,}, {rows:,} rows in the window",
        _costs(costs_found),
    )
    slidem_picture.rates(found, job.picture("vwap"))
    return [job.picture("vwap")]


def _injected(found: Sequence[slidem_vwap.Injected]) -> Table:
    head = [
        "rows a second", "reached", "GB of an hour", "MB of files", "MB in memory",
        "mean ms a push", "p99.9", "slowest", "mean µs a row", "behind ms, at most",
        "% of a core", "MB a second", "requests", "formula 3.1",
    ]  # fmt: skip
    lines = [
        [
            f"{r.rate:,}", f"{r.reached:,.0f}", number(r.hour_gb), number(r.disk / 1e6),
            number(r.held / 1e6), number(r.mean_ms), number(r.p999_ms), number(r.max_ms),
            number(r.mean_us_a_row), number(r.behind_ms), number(r.cpu), number(r.mb),
            f"{r.requests:,}", number(r.expected),
        ]
        for r in found
    ]  # fmt: skip
    return [head, *lines]


def _table_1() -> Table:
    head = [
        "rows a second", "GB of an hour", "mean ms a row", "slowest", "% of 8 cores", "ADQL",
        "MB a second, formula 3.2",
    ]  # fmt: skip
    lines = [
        [
            f"{r.rate:,}", number(r.space_gb), number(r.mean_ms), number(r.max_ms), number(r.cpu),
            number(r.adql), number(slidem_vwap.expected_mb(r.rate)),
        ]
        for r in paper.TABLE_1
    ]  # fmt: skip
    return [head, *lines]


def _costs(found: Sequence[slidem_vwap.Cost]) -> Table:
    head = [
        "windows",
        "memory",
        "CPU ns a row",
        "of it system",
        "times in memory",
        "ns by the clock",
        "MB held",
    ]
    plain = {r.way: r.cpu_ns for r in found if r.memory is None}
    lines = [
        [
            r.way, "all" if r.memory is None else f"{r.memory / 2**20:g} MB", number(r.cpu_ns),
            number(r.system_ns), number(r.cpu_ns / plain[r.way]), number(r.wall_ns),
            number(r.held / 1e6) if r.held else "",
        ]
        for r in found
    ]  # fmt: skip
    return [head, *lines]


# ---- SSM -------------------------------------------------------------------------------------


def experiment_ssm(job: Job) -> list[Path]:
    """2 to 32 windows over one repository, and over one each (Figure 11)."""
    scale = slidem_shared.Scale(job.of(16, 128))
    counts = job.of(paper.SHARED_WINDOWS, paper.SHARED_WINDOWS[:2])
    found = slidem_shared.by_windows(counts, scale, job.progress)
    title = (
        f"Windows of 3,600 to 7,200 s over one stream: a pool of {scale.pool} blocks, the largest "
        f"window {scale.blocks(paper.SHARED_RANGE[1]):.0f}"
    )
    job.show(f"{title}. Space, in blocks", _space(found))
    job.show(f"{title}. Requests for every block of rows", _requests(found, scale))
    print(
        f"\nThe paper: up to {paper.SHARED_SPACE} times less space, {paper.SHARED_REQUESTS} times "
        f"fewer requests ({paper.MACHINE})."
    )
    slidem_picture.shared(found, job.picture("ssm"))
    return [job.picture("ssm")]


def _space(found: Sequence[tuple[slidem_shared.Held, slidem_shared.Held]]) -> Table:
    head = [
        "windows", "SSM: in memory", "on the store", "with what has gone", "unshared: in memory",
        "on the store", "with what has gone", "times less, memory and store", "of rows",
    ]  # fmt: skip
    lines = [
        [
            f"{a.windows}", f"{a.pooled:,}", f"{a.stored:,}", f"{a.kept:,}", f"{b.pooled:,}",
            f"{b.stored:,}", f"{b.kept:,}", number(b.space / a.space),
            number(sum(slidem_shared.spans(a.windows)) / paper.SHARED_RANGE[1]),
        ]
        for a, b in found
    ]  # fmt: skip
    return [head, *lines]


def _requests(
    found: Sequence[tuple[slidem_shared.Held, slidem_shared.Held]], scale: slidem_shared.Scale
) -> Table:
    head = [
        "windows", "SSM", "hit rate", "formula 4.2", "formula 4.1", "unshared", "formula 3.1",
        "times fewer",
    ]  # fmt: skip
    lines = [
        [
            f"{a.windows}", number(a.a_block), f"{a.hit_rate:.3f}",
            f"{slidem_shared.expected_hit_rate(a.windows, scale):.3f}", number(a.formula),
            number(b.a_block), f"{2 * a.windows}", number(b.requests / a.requests),
        ]
        for a, b in found
    ]  # fmt: skip
    return [head, *lines]


EXPERIMENTS: dict[str, Callable[[Job], list[Path]]] = {
    "calls": experiment_calls,
    "vwap": experiment_vwap,
    "ssm": experiment_ssm,
}


# ---- the command -----------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", choices=EXPERIMENTS, metavar="NAME", help="which (all)"
    )
    add_options(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    options = parse(arguments)
    measure(options, {name: EXPERIMENTS[name] for name in options.only or EXPERIMENTS})


if __name__ == "__main__":
    main()
