"""Measure everything and print it: CPU nanoseconds a row of mta and of its peers, in one run.

python -m asv_benchmarks.compare --quick
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

from asv_benchmarks import tables
from asv_benchmarks.measure import Measured, machine, measure
from asv_benchmarks.peers import versions
from asv_benchmarks.suite import PROFILES, Profile, subjects

EXPLAIN = (
    "CPU nanoseconds a row, one thread, least of {repeats}, everyone in turns in one process. A "
    "peer's column is followed by mta's, the whole call on the same kind of frame (bottleneck: "
    "arrays), and by ×, the peer's time over mta's: above 1, mta is faster."
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    names = [subject.__name__ for subject in subjects()]
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.compare", description=(__doc__ or "").partition("\n")[0]
    )
    size = parser.add_mutually_exclusive_group()
    for name in ("quick", "full"):
        rows = f"{PROFILES[name].rows:,} rows, least of {PROFILES[name].repeats}"
        size.add_argument(
            f"--{name}",
            dest="profile",
            action="store_const",
            const=name,
            default="default",
            help=rows,
        )
    parser.add_argument("--rows", type=int, help="rows of the input (default 2,000,000)")
    parser.add_argument("--repeats", type=int, help="measurements, of which the least counts")
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="SUBJECT", help=", ".join(names)
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args(arguments)


def header(profile: Profile) -> list[str]:
    """What was run, where, with what."""
    import mta

    others = ", ".join(f"{name} {version}" for name, version in versions().items())
    command = " ".join(["python -m asv_benchmarks.compare", *sys.argv[1:]])
    return [
        f"Command: `{command}` ({profile.rows:,} rows)",
        f"Machine: {machine()}",
        f"Versions: mta {mta.__version__}, {others}, Python {platform.python_version()}",
        EXPLAIN.format(repeats=profile.repeats),
    ]


def run(profile: Profile, only: Sequence[str] | None) -> list[Measured]:
    """Measure the subjects, saying on stderr which one it is at."""
    found = []
    for subject in subjects():
        if only and subject.__name__ not in only:
            continue
        measured = measure(subject(), profile, show_progress)
        if measured.lines:
            found.append(measured)
    show_progress("")
    return found


def show_progress(what: str) -> None:
    """Write over the line before, where someone is watching."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")
        sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    options = parse(arguments)
    chosen = PROFILES[options.profile]
    profile = Profile(options.rows or chosen.rows, options.repeats or chosen.repeats)
    everything = run(profile, options.only)
    joint = "\n\n" if options.markdown else "\n"
    print(joint.join(header(profile)), tables.report(everything, options.markdown), sep="\n\n")


if __name__ == "__main__":
    main()
