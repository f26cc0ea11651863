"""The libraries compared with, where they are installed."""

from __future__ import annotations

import importlib
from typing import Any


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# Imported with this module: asv forks a process for each measurement, after the imports.
LIBRARIES: dict[str, Any] = {
    name: _load(name) for name in ("pandas", "polars", "bottleneck", "duckdb")
}


def installed(name: str) -> bool:
    """Whether `name` can be used; names that are no library of ours to check always can."""
    return LIBRARIES.get(name, ...) is not None


def versions() -> dict[str, str]:
    """Versions of NumPy and of the libraries that are installed."""
    found: dict[str, Any] = {"numpy": importlib.import_module("numpy"), **LIBRARIES}
    return {name: module.__version__ for name, module in found.items() if module is not None}
