"""How a paper's numbers, measured again, are told: steps, tables, and the machine."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mta

Table = list[list[str]]


class Steps:
    """Says on stderr what is being done: over the line before, where someone is watching."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.watched = sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        """Begin with the next of the steps."""
        line = f"[{time.monotonic() - self.begun:5.0f} s] {what}"
        sys.stderr.write(f"\r\033[K{line}" if self.watched else f"{line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line empty."""
        if self.watched:
            sys.stderr.write("\r\033[K")


def print_table(table: Table) -> None:
    """In columns, as Markdown."""
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    rule = ["-" * width for width in widths]
    for line in (table[0], rule, *table[1:]):
        print("| " + " | ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) + " |")


def machine() -> str:
    """Processor, cores and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return (
        f"{name}, {os.cpu_count()} cores, {platform.system()}; Python "
        f"{platform.python_version()}, NumPy {np.__version__}, mta {mta.__version__}"
    )


@dataclass(frozen=True)
class Job:
    """What the command line asks for, and how to say how far it has come."""

    out: Path
    quick: bool
    progress: Callable[[str], None]

    def of(self, full: Any, quick: Any) -> Any:
        """How much to measure: all, or for a trial only."""
        return quick if self.quick else full

    def picture(self, name: str) -> Path:
        """Where to write a picture."""
        return self.out / f"{name}.png"

    def show(self, title: str, table: Table) -> None:
        """A table with what it tells above it."""
        if isinstance(self.progress, Steps):
            self.progress.end()
        print(f"\n{title}\n")
        print_table(table)


def number(value: float) -> str:
    """With three digits that count, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every paper's program can be told."""
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory (out)")


def measure(
    options: argparse.Namespace, experiments: Mapping[str, Callable[[Job], list[Path]]]
) -> None:
    """Make these experiments, print their tables and say where their pictures are."""
    options.out.mkdir(parents=True, exist_ok=True)
    progress = Steps()
    job = Job(options.out, options.quick, progress)
    print(f"Machine: {machine()}\nCommand: python {' '.join(sys.argv)}")
    for title, experiment in experiments.items():
        print(f"\n{title}. {(experiment.__doc__ or '').strip()}")
        pictures = experiment(job)
        progress.end()
        print("\nPictures: " + ", ".join(map(str, pictures)), flush=True)
