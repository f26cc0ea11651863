"""Holds the compiled modules to the import order, which import-linter checks for Python files only.

The kernel stands below everything but the errors. A compiled module that stands higher is listed
with the Python modules of ours that it may import; the kernel may not import it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KERNEL_MAY = {"mta.errors"}
HIGHER_MAY = {
    # The engine of single rows: compiled because a push must cost about one Python call.
    "mta._pushed": {"mta.frames", "mta.items", "mta.kernels", "mta.plan"},
    "mta._held": {"mta._pushed"},
    "mta._batches": {"mta._pushed"},
    "mta._many": {"mta._batches", "mta._held", "mta._pushed", "mta.errors"},
    "mta._search": {"mta._held", "mta._pushed", "mta.errors"},
    # Policies that need no Python, over any window and over a pushed one.
    "mta._decide": {"mta._pushed", "mta._search", "mta.policies"},
    "mta._deciding": {"mta._decide", "mta._held", "mta._many", "mta._pushed", "mta._search"},
    # Windows by algorithm, over the same columns and answers.
    "mta._fifo_values": {"mta._pushed", "mta.errors", "mta.functions", "mta.plan"},
    "mta._fifo_policies": {"mta._decide", "mta._fifo_values", "mta._pushed", "mta._search"},
    "mta._fifo": {
        "mta._decide",
        "mta._fifo_bytes",
        "mta._fifo_policies",
        "mta._fifo_values",
        "mta._many",
        "mta._pushed",
        "mta._search",
        "mta.durations",
        "mta.errors",
        "mta.policies",
        "mta.snapshot",
    },
    "mta._tiers": {
        "mta._block_names",
        "mta._fifo_bytes",
        "mta._fifo_values",
        "mta.errors",
        "mta.snapshot",
    },
    "mta._stored_fifo": {
        "mta._decide",
        "mta._fifo",
        "mta._fifo_policies",
        "mta._many",
        "mta._tiers",
        "mta.errors",
        "mta.policies",
        "mta.stores",
    },
    "mta._window": {
        "mta._decide",
        "mta._deciding",
        "mta._held",
        "mta._many",
        "mta._pushed",
        "mta._search",
        "mta.durations",
        "mta.errors",
        "mta.functions",
        "mta.plan",
        "mta.policies",
        "mta.snapshot",
    },
}
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+)?c?import[ \t]+"
    r"(?:\((?P<block>[^)]*)\)|(?P<line>[^\n#]*))",
    re.MULTILINE,
)


def compiled_modules(package: Path) -> dict[str, list[Path]]:
    """The sources of every compiled module, by its name."""
    modules: dict[str, list[Path]] = {}
    for path in sorted([*package.rglob("*.pyx"), *package.rglob("*.pxd")]):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        modules.setdefault(name, []).append(path)
    return modules


def imported(text: str) -> set[str]:
    """The modules that a Cython source imports; ``from mta import x`` counts as ``mta.x``."""
    found: set[str] = set()
    for match in IMPORT.finditer(text):
        listed = (match["block"] or match["line"]).split(",")
        names = [name.split()[0] for name in listed if name.strip()]
        source = re.sub(r"^\.", "mta.", match["source"] or "").rstrip(".")
        if source == "mta":
            found.update(f"mta.{name}" for name in names)
        else:
            found.update([source] if source else names)
    return found


def violations(package: Path) -> list[str]:
    """One line for every import that goes the wrong way."""
    modules = compiled_modules(package)
    kernel = modules.keys() - HIGHER_MAY.keys()
    return [
        f"{path}: {module} may not import {name}"
        for module, paths in modules.items()
        for path in paths
        for name in sorted(imported(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in ("mta", "spark_bridge")
        and name not in kernel | HIGHER_MAY.get(module, KERNEL_MAY) | {module}
    ]


if __name__ == "__main__":
    found = violations(Path("mta"))
    print("\n".join(found) or "Compiled modules: order kept.")
    sys.exit(bool(found))
