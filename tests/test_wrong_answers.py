"""The table of the peers' wrong answers: mta is right in every line."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "wrong_answers.py"


@pytest.fixture(scope="module")
def lines():
    spec = importlib.util.spec_from_file_location("wrong_answers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look it up
    spec.loader.exec_module(module)
    return module.table()


def test_mta_is_right_in_every_line(lines):
    assert [line for line in lines if line[3] != "right"] == []


def test_the_questions_tell_engines_apart(lines):
    others = [line for line in lines if any(cell.startswith("**") for cell in line[4:])]
    assert len(others) >= len(lines) // 3
