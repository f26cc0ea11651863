"""Rolling answers against exact rational arithmetic, over every option at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import check
from kinds import KINDS, build, read
from oracle import Agg, Rolling, answers, differences
from strategies import CLOSED, data, engine_spec, rollings

DAY_IN_MICROSECONDS = 86_400_000_000


@given(data(), rollings())
def test_any_window_over_any_rows(sample, spec):
    check(spec, sample)


@given(data(), rollings(), st.sampled_from(KINDS))
def test_every_kind_of_frame_gives_the_same_answers(sample, spec, kind):
    check(spec, sample, kind)


@given(
    data(time_type="timestamp[us]", tick=DAY_IN_MICROSECONDS),
    rollings(tick=DAY_IN_MICROSECONDS),
    st.sampled_from(KINDS),
)
def test_timestamps_and_durations(sample, spec, kind):
    check(spec, sample, kind, unit="us")


@given(data(max_size=60, keys=("int64", "string")), rollings(fns=("sum", "max", "std")))
def test_longer_input(sample, spec):
    check(spec, sample)


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize(
    ("ties", "lag"),
    [("peers", 0), ("arrival", 0), ("peers", 2), ("arrival", 2), ("arrival", 1), ("peers", -2)],
)
def test_every_edge_rule_over_every_order_of_ties(closed, ties, lag):
    """All 27 arrival orders of three ticks, twice over: no edge goes untested by chance."""
    spec = Rolling(
        aggs={"n": Agg("count"), "s": Agg("sum", "i"), "m": Agg("mean", "i"), "h": Agg("max", "i")},
        kind="time", range=2, on="t", by=("k",), closed=closed, lag=lag, ties=ties,
    )  # fmt: skip
    orders = [(a, b, c, a, 2) for a in range(3) for b in range(3) for c in range(3)]
    rows = [
        {"t": t, "i": 1 << place, "k": number}
        for number, order in enumerate(orders)
        for place, t in enumerate(order)
    ]
    columns = {name: ("int64", [row[name] for row in rows]) for name in ("t", "i", "k")}
    result = engine_spec(spec)(build("pyarrow", columns))
    wrong = differences(read(result), answers(spec, rows))
    assert not wrong, "\n".join(wrong)


@given(data(max_size=30), rollings(), st.randoms(use_true_random=False))
def test_order_of_input_matters_only_through_ties(sample, spec, random):
    """Shuffling rows of distinct times permutes the answers and changes nothing else."""
    if spec.on is None:
        return
    rows = [{**row, "t": t} for t, row in enumerate(sample.rows)]
    order = list(range(len(rows)))
    random.shuffle(order)
    columns = {n: (t, [row[n] for row in rows]) for n, (t, _) in sample.columns.items()}
    shuffled = {n: (t, [v[i] for i in order]) for n, (t, v) in columns.items()}
    run = engine_spec(spec)
    straight, mixed = read(run(build("pyarrow", columns))), read(run(build("pyarrow", shuffled)))
    assert [repr(mixed[order.index(i)]) for i in range(len(rows))] == [repr(r) for r in straight]
