"""The SlideM paper's experiments on few rows: answers and counts are as they claim, no times."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

NEEDED = ("matplotlib",)
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the example needs {', '.join(MISSING)}")

if not MISSING:
    import paper_slidem
    import slidem_calls
    import slidem_published
    import slidem_shared
    import slidem_streams
    import slidem_vwap
    from paper_report import Table


def quiet(what):
    """No progress."""


# ---- the streams -----------------------------------------------------------------------------


def test_calls_have_the_papers_schema():
    some = slidem_streams.calls(500, 2000, 1000)
    assert sum(column.itemsize for column in some.values()) == paper_slidem.ROW_OF_CALL
    assert len(some) == 23
    assert {len(column) for column in some.values()} == {2000}
    ticks = some["timestamp"].view(np.int64)
    assert ticks.tolist() == list(range(500, 2500))  # milliseconds
    for key, groups in slidem_streams.KEYS.items():
        assert some[key].min() >= 0
        assert groups - 1 >= some[key].max() > groups // 2 - 1
    again = slidem_streams.calls(500, 2000, 1000)
    assert all((some[name] == again[name]).all() for name in some)


@pytest.mark.parametrize("first", [0, 7, 4095, 4096, 10_001])
def test_trades_come_by_symbol_in_turn(first):
    trades = slidem_streams.Trades(500, most=4096)
    some = trades.rows(first, 300)
    assert {len(column) for column in some.values()} == {300}
    numbers = np.arange(first, first + 300)
    assert some["symbol"].tolist() == (numbers % slidem_streams.SYMBOLS).tolist()
    assert some["ts"].view(np.int64).tolist() == (numbers * 2000).tolist()


# ---- the call centre -------------------------------------------------------------------------


def test_kpis_are_144():
    """SUM and AVG of 6 attributes by 8 keys, and COUNT, which they share where nothing is null."""
    for key, groups in slidem_streams.KEYS.items():
        found = slidem_calls.kpis(key)(slidem_streams.calls(0, 100, 2))
        assert len(set(found) - {key, "start", "end"}) == 13
        assert len(set(found[key].tolist())) <= groups


def test_call_centre_answers_alike_in_every_way():
    size = slidem_calls.Size("", 50, 600, 20)
    found = [slidem_calls.measure(how, size) for how in slidem_calls.HOW]
    assert [run.how for run in found] == ["in memory", "1W", "2LA"]
    assert len({(run.answers, run.total) for run in found}) == 1
    assert found[0].answers > 100_000
    for run in found:
        assert run.rows == size.rows == 30_000
        assert len(run.hours) == len(run.held) == len(run.pushed_ms) == 30
        assert run.hours[-1] == pytest.approx(600 / 3600)
    memory, one_window, two_levels = found
    assert (memory.written, memory.disk) == (0, 0)
    assert min(one_window.written, two_levels.written) > 50
    assert min(one_window.disk, two_levels.disk) > 10**6


def test_other_kpis_are_found(monkeypatch):
    """The comparison can fail."""
    runs = {
        how: slidem_calls.measure(how, slidem_calls.Size("", 5, 60, 30)) for how in ("1W", "2LA")
    }
    monkeypatch.setattr(slidem_calls, "in_child", lambda how, size: runs[how])
    size = slidem_calls.Size("", 5, 60, 30)
    assert len(slidem_calls.compared(size, list(runs), quiet)) == 2
    runs["2LA"] = replace(runs["2LA"], total=runs["2LA"].total ^ 1)
    with pytest.raises(AssertionError, match="other answers"):
        slidem_calls.compared(size, list(runs), quiet)


# ---- VWAP ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["one window", "by symbol"])
def test_vwap_answers_as_in_memory(way):
    answers, equal = slidem_vwap.same_answers(way, 30_000, 1500, memory=2**15)
    assert (answers, equal) == (30_000, 30_000)


@pytest.mark.parametrize("way", ["one window", "by symbol"])
def test_vwap_is_what_brute_force_finds(way):
    trades = slidem_streams.Trades(1000)
    with slidem_vwap.opened(slidem_vwap.vwap(0.5, way), 2**15) as (op, _):
        some = trades.rows(0, 2000)
        found = np.concatenate([op.push(some)["vwap"], op.finish()["vwap"]])
    ts, price, volume = some["ts"].view(np.int64), some["price"], some["volume"]
    for row in (*range(0, 2000, 97), 1999):
        inside = (ts <= ts[row]) & (ts > ts[row] - 500_000)
        if way == "by symbol":
            inside &= some["symbol"] == some["symbol"][row]
        wanted = (price * volume)[inside].sum() / volume[inside].sum()
        assert found[row] == pytest.approx(wanted, rel=1e-12)


def test_requests_are_those_of_formula_3_1_once_the_window_is_full():
    """Also where a push is longer than the pool: then a block is not read twice, either."""
    found = slidem_vwap.injected("one window", 500_000, 0.6, 0.8, 5000)
    assert found.requests > 350
    assert found.requests == pytest.approx(found.expected, rel=0.01)
    assert found.rows == 400_000
    assert 0 < found.mean_ms <= found.max_ms
    assert found.p999_ms <= found.max_ms
    assert found.mean_us_a_row == pytest.approx(found.mean_ms / 5)
    # 24 bytes of a row are on the store: no symbol is needed, and times are 8 bytes.
    inside = 0.6 * 500_000 * 24
    assert 0.8 * inside < found.disk < 5 * inside
    assert found.held < 2**20
    assert found.reached <= 500_000


# ---- SSM -------------------------------------------------------------------------------------


def test_windows_share_rows():
    scale = slidem_shared.Scale(64)
    for windows in (2, 4, 8):
        shared = slidem_shared.shared(windows, scale)
        apart = slidem_shared.unshared(windows, scale)
        assert apart.a_block == pytest.approx(2 * windows, rel=0.01)  # formula 3.1
        assert shared.a_block <= shared.formula * 1.01  # formula 4.1
        assert shared.hit_rate == pytest.approx(
            slidem_shared.expected_hit_rate(windows, scale), abs=0.03
        )
        largest = scale.blocks(7200)
        assert shared.stored == pytest.approx(largest, abs=3)
        wanted = sum(scale.blocks(span) for span in slidem_shared.spans(windows))
        assert apart.stored == pytest.approx(wanted, abs=3 * windows)
        assert apart.space == apart.stored + apart.pooled
        assert shared.blocks == apart.blocks
        assert shared.kept <= 2 * shared.stored + 40


def test_rows_of_other_windows_are_found(monkeypatch):
    """The check of what is read can fail."""
    values = slidem_shared._values
    monkeypatch.setattr(slidem_shared, "_values", lambda first, rows: values(first + 1, rows))
    with pytest.raises(AssertionError, match="is another one"):
        slidem_shared.shared(2, slidem_shared.Scale(512))


# ---- the paper's numbers, and the program ----------------------------------------------------


def test_the_papers_numbers():
    """As its text has them."""
    table = slidem_published.TABLE_1
    assert [line.rate for line in table] == list(range(50_000, 300_001, 50_000))
    assert table[0] == (50_000, 4.7, 0.009, 2.9, 5, 0.016)
    assert table[-1] == (300_000, 28.2, 0.008, 18.9, 100, 0.145)
    assert slidem_vwap.expected_mb(300_000) == pytest.approx(slidem_published.DISK_MB, rel=0.06)
    hours = [slidem_vwap.ROW_OF_TRADE * line.rate * 3600 / 2**30 for line in table]
    assert hours == pytest.approx([line.space_gb for line in table], rel=0.01)


def check_well_formed(table: Table):
    assert len(table) > 1
    assert {len(line) for line in table} == {len(table[0])}


def test_the_program_prints_tables_and_draws(tmp_path, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(
        paper_slidem.Job, "show", lambda job, title, table: shown.append((title, table))
    )
    paper_slidem.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    for title, table in shown:
        assert title
        check_well_formed(table)
    assert len(shown) == 2 + 2 + 1 + 1 + 2
    tables = dict(shown)
    published = next(table for title, table in shown if title.startswith("Table 1 of the paper"))
    assert published[1][:6] == ["50,000", "4.7", "0.009", "2.9", "5", "0.016"]
    ours = next(table for title, table in shown if title.startswith("VWAP, one window"))
    assert {"rows a second", "reached", "slowest", "% of a core", "formula 3.1"} <= set(ours[0])
    requests = next(table for title, table in shown if title.endswith("every block of rows"))
    assert [line[0] for line in requests[1:]] == ["2", "4"]
    assert len(tables) == len(shown)
    for name in ("calls-day", "calls-dense", "vwap", "ssm"):
        assert f"{tmp_path / name}.png" in printed
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    for text in ("Machine: ", "Command: ", "up to 24 times less space", "ended before 3 hours"):
        assert text in printed
