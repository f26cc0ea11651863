"""Every benchmark runs, everyone in it gives the same answers, and the tables can be drawn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from asv_benchmarks import compare, measure, suite, tables  # noqa: E402

ROWS = 600
SMALL = {"window": 16}
SUBJECTS = suite.subjects()


def small_points(subject):
    """The points of a subject with one small window in the place of all."""
    points = {tuple({**point, **SMALL}.items()): None for point in subject.points()}
    return [dict(point) for point in points]


def test_every_file_has_a_subject():
    files = {path.stem for path in (ROOT / "asv_benchmarks/benchmarks").glob("[a-z]*.py")}
    assert {subject.__module__.rpartition(".")[2] for subject in SUBJECTS} == files


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_everyone_gives_the_same_answers(subject):
    for point in small_points(subject):
        data = subject().data(ROWS, point)
        expected = None
        for runner in subject().runners(point):
            if runner.available:
                result = subject().answers(runner, runner.call(data.frame(runner.frame)))
                assert len(result) == ROWS or not subject.per_row
                expected = result if expected is None else expected
                # Hand-written running totals of squares are that inexact.
                np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_asv_can_run_it(subject, monkeypatch):
    monkeypatch.setattr(suite, "asv_profile", lambda: suite.Profile(20_000, 1))
    case = subject()
    assert len(case.params) == len(case.param_names)
    for runner in case.runners(next(case.points())):
        if runner.available:
            first = [values[0] for values in case.params[:-1]]
            case.setup(*first, runner.label)
            case.time_call(*first, runner.label)


def test_asv_finds_them_and_nothing_else():
    discovery = pytest.importorskip("asv_runner.discovery")
    found = {b.name for b in discovery.disc_benchmarks(str(ROOT / "asv_benchmarks"))}
    wanted = {f"{s.__module__}.{s.__name__}.time_call" for s in SUBJECTS}
    assert found == {name.partition(".")[2] for name in wanted}


def test_asv_skips_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(suite, "asv_profile", lambda: suite.Profile(100, 1))
    case = next(s for s in SUBJECTS if s.__name__ == "RowWindows")()
    with pytest.raises(NotImplementedError):
        case.setup("sum", 2**20, "pandas")


def test_a_wrong_answer_is_marked():
    pytest.importorskip("bottleneck")
    subject = next(s for s in SUBJECTS if s.__name__ == "RowWindows")()
    found = measure.disagreements(subject, {"aggregate": "sum", "window": 1024})
    assert found["bottleneck"] > 1e-3
    assert "pandas" not in found


@pytest.mark.parametrize("options", [[], ["--markdown"]])
def test_comparison_is_printed(options, capsys):
    compare.main(["--rows", "1500", "--repeats", "1", "--only", "RowWindows", *options])
    printed = capsys.readouterr().out
    assert "1,500 rows" in printed
    assert "Summary" in printed
    assert ("| sum | 16 |" in printed) == bool(options)


def test_sizes_are_short():
    assert [tables.size(x) for x in (16, 1024, 2**16, 2**20, 1000, "int")] == [
        "16", "1k", "64k", "1M", "1000", "int",
    ]  # fmt: skip
