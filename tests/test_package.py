"""What holds for the package as it is installed: its modules, examples and types."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import mta

FOLDER = Path(mta.__file__).parent
COMPILED = sorted(
    module.name
    for module in pkgutil.walk_packages(mta.__path__, "mta.")
    if not module.ispkg
    and not (FOLDER.parent / Path(*module.name.split("."))).with_suffix(".py").exists()
    and module.name != "mta._cyutility"  # Cython's own, which all others share
)


def test_every_compiled_module_is_found():
    sources = {
        ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
        for path in FOLDER.rglob("*.pyx")
    }
    assert sources
    assert set(COMPILED) == sources


@pytest.mark.parametrize("name", COMPILED)
def test_examples_of_compiled_modules(name):
    """pytest itself looks for doctests in Python files only."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_typed():
    assert (FOLDER / "py.typed").exists()
