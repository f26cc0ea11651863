"""How a paper's numbers, measured again, are told: steps, tables, and the machine."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

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
