"""The examples with streams, on few rows, as a user runs them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
pytest.importorskip("matplotlib", reason="the [examples] extra is not installed")

ROOT = Path(__file__).parent.parent


def run(program, *arguments):
    """What it printed on standard output and error."""
    # A JVM of so short a life does not pay for its best compiler.
    environment = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
                   "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, done.stderr


@pytest.mark.spark
def test_card_fraud():
    out, told = run("card_fraud.py", "--rows", "1500", "--files", "1")
    assert "1,500 payments with 10 features each, to the last bit." in out
    assert "1,500 answered" in told


@pytest.mark.spark
def test_call_centre(tmp_path):
    out, told = run("call_centre.py", "--rows", "900", "--seconds", "2", "--output", str(tmp_path))
    assert "each as the local engine has it, to the last bit." in out
    assert "the hour up to 18:" in told
    page = (tmp_path / "call_centre.html").read_text()
    assert page.count("<tr>") == 4 and "<svg" in page and "nan" not in page.split("<svg")[0]
    assert (tmp_path / "call_centre.png").read_bytes().startswith(b"\x89PNG")


def example(name):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_made_up_rows_are_what_is_said_of_them():
    """Of the sizes that were asked for, late by no more than is waited for, with what is found."""
    for name, make, column in (("card_fraud", "make_payments", "paid_at"),
                               ("call_centre", "make_calls", "ended")):  # fmt: skip
        module = example(name)
        made = getattr(module, make)(3000)
        table = made[0] if isinstance(made, tuple) else made
        assert 2800 < len(table) <= 3000
        ts = table[column].to_numpy().astype("M8[us]").astype(np.int64)
        behind = np.maximum.accumulate(ts) - ts
        assert 0 < behind.max() < module.LATENESS * 1_000_000


def test_a_page_that_is_live_reloads_itself(tmp_path):
    import datetime as dt

    picture = example("call_picture")
    end = dt.datetime(2026, 3, 10, 12, tzinfo=dt.timezone.utc)
    row = {"queue": "a<b", "end": end, "calls": 3, "in_time": 0.5, "given_up": 1.0, "wait": 65.0,
           "wait_90": 130.0, "talk": None}  # fmt: skip
    page = tmp_path / "page.html"
    picture.write_page(page, [row], ["a<b", "b", "c"], live=True)
    text = page.read_text()
    assert 'http-equiv="refresh"' in text and "a&lt;b" in text and "1:05 min" in text
    assert '<td class="bad">50%</td>' in text and "<td>–</td>" in text
    assert list(tmp_path.iterdir()) == [page]
