"""Trailing windows whose answers late rows revise, against the words taken one row at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import SpecError
from mta.specs import Duration
from mta.windows import extent, in_order
from strategies import CLOSED
from test_stream import cut


@st.composite
def revised(draw):
    """A rolling spec whose stream revises, and rows of two keys, many of them late."""
    n = draw(st.integers(1, 14))
    ts = [t + draw(st.integers(-6, 3)) for t in range(n)]
    keys = draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    columns = {"t": ("int64", ts), "k": ("string", keys), "x": ("int64", list(range(n)))}
    lag, closed = draw(st.integers(-3, 3)), draw(st.sampled_from(CLOSED))
    ties = draw(st.sampled_from(["peers", "arrival"])) if lag >= 0 else "peers"
    options = {"on": "t", "by": draw(st.sampled_from([None, "k"])), "closed": closed, "ties": ties}
    if draw(st.booleans()):
        options |= {"every": draw(st.integers(1, 3)), "every_by": "arrival"}
    rows = draw(st.integers(0, 2)) == 0
    length = draw(st.one_of(st.none(), st.integers(1, 6)))
    if rows and length is not None:
        spec = mta.rolling(length, lag=lag, **options)
    else:
        spec = mta.rolling(None if length is None else f"{length}i", lag=f"{lag}i", **options)
    within = draw(st.integers(0, 7))
    spec = spec.watermark(f"{draw(st.integers(0, 4))}i").late("revise", within=f"{within}i")
    return columns, spec.agg(rows=agg.list("x"), n=agg.count())


def group(columns, spec, rows, row):
    """The rows of the key of a row, in order of arrival."""
    keys = columns["k"][1]
    return [i for i in rows if not spec.by or keys[i] == keys[row]]


def complete(spec, ts, mark, i):
    """Whether no row from the watermark on comes before one of these, or joins its window."""
    if ts[i] > mark:
        return False
    lag = spec.lag.amount if isinstance(spec.lag, Duration) else spec.lag or 0
    if spec.over_rows:
        order = in_order(spec, ts)
        in_place = sum(t <= mark for t in ts)
        return order.index(i) + (1 if spec.right_closed else 0) - lag <= in_place
    if spec.ties == "arrival" and not lag:
        return True
    return ts[i] - lag < mark if spec.right_closed else ts[i] - lag <= mark


class Words:
    """What the words say, one row at a time: the answers, and the rows that are late."""

    def __init__(self, spec, columns):
        self.spec, self.columns = spec, columns
        self.kept, self.late, self.done = [], [], set()
        self.told, self.counts = [], {}

    def mates(self, row):
        """The rows of its key so far, their times, and where it stands among them."""
        mates = group(self.columns, self.spec, self.kept, row)
        return mates, [self.columns["t"][1][i] for i in mates], mates.index(row)

    def held(self, row):
        mates, ts, at = self.mates(row)
        return [mates[i] for i in extent(self.spec, at, ts)]

    def tell(self, row):
        if self.spec.every is None or (self.mates(row)[2] + 1) % self.spec.every == 0:
            self.counts[row] = self.counts.get(row, 0) + 1
            self.told.append((row, self.counts[row], self.held(row)))

    def finish(self, mark):
        """First answers: those that the watermark makes final."""
        for row in self.kept:
            _, ts, at = self.mates(row)
            if row not in self.done and complete(self.spec, ts, mark, at):
                self.done.add(row)
                self.tell(row)

    def revise(self, row, mark):
        before = {other: self.held(other) for other in self.done}
        self.kept.append(row)
        _, ts, at = self.mates(row)
        own = complete(self.spec, ts, mark, at)
        for other in self.mates(row)[0]:
            if other in self.done and self.held(other) != before[other]:
                self.tell(other)  # (a window of rows that lags may hold another row by it)
        if own:
            self.done.add(row)
            self.tell(row)

    def run(self):
        within, delay = self.spec.lateness.within.amount, self.spec.progress.delay.amount
        mark = -(2**40)
        for row, t in enumerate(self.columns["t"][1]):
            if t < mark - within:
                self.late.append(row)
            elif t < mark:
                self.revise(row, mark)
            else:
                self.kept.append(row)
            mark = max(mark, t - delay)
            self.finish(mark)
        for row in self.kept:
            if row not in self.done:
                self.tell(row)
        return self.told, self.late


def pushed(spec, columns, cuts, save):
    op, made = spec.stream(), []
    for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
        made += read(op.push(build("pyarrow", cut(columns, start, stop))))
        if save:
            op = spec.stream(op.to_bytes())
    return made + read(op.finish()), op


@given(revised(), st.data(), st.booleans())
def test_late_rows_revise_the_windows_that_hold_them(made, draws, save):
    columns, spec = made
    cuts = draws.draw(st.lists(st.integers(0, len(columns["t"][1])), max_size=4))
    got, op = pushed(spec, columns, cuts, save)
    want, late = Words(spec, columns).run()
    assert sorted((row["row"], row["revision"], row["rows"] or []) for row in got) == sorted(want)
    for row in got:
        assert row["t"] == columns["t"][1][row["row"]]
        assert row["n"] == len(row["rows"] or [])
        assert not spec.by or row["k"] == columns["k"][1][row["row"]]
    assert op.late()["x"].to_pylist() == late
    assert op.state()["waiting"] == 0


def test_in_the_end_all_answers_are_those_of_a_batch_to_the_last_bit():
    rng = np.random.default_rng(5)
    n = 2000
    frame = pd.DataFrame({"t": np.arange(n) + rng.integers(0, 60, n), "k": rng.integers(0, 5, n)})
    frame["x"] = rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n)
    frame["s"] = pd.Series(rng.choice(["a", "b", "c"], n), dtype="string")
    spec = mta.rolling("25i", on="t", by="k").watermark("3i").late("revise", within="60i")
    spec = spec.agg(s=agg.sum("x"), l=agg.last("s"), m=agg.mode("s"), q=agg.median("x"))
    op = spec.stream()
    got = pd.concat([*(op.push(frame.iloc[i : i + 150]) for i in range(0, n, 150)), op.finish()])
    assert op.state()["late"] == 0
    assert got["revision"].max() > 5
    assert got["row"].tolist() == got.index.tolist()
    last = got.sort_values(["row", "revision"]).groupby("row").last()
    want = spec(frame)
    pd.testing.assert_frame_equal(last[want.columns], want, check_exact=True, check_names=False)
    kept = [state.track.rows for state in op.keyed.tracks.values()]
    assert all(rows.end - rows.first < 100 for rows in kept)


def test_a_push_that_fails_after_a_revision_takes_nothing_in():
    spec = mta.rolling("10i", on="t", ties="arrival").watermark(0).late("revise", within="50i")
    op = spec.agg(s=agg.sum("x"), l=agg.last("x")).stream()

    def some(ts, x):
        return {"t": np.array(ts), "x": np.array(x)}

    op.push(some([5, 9, 14], [1, 2, 3]))
    before = op.state() | {"bytes": op.to_bytes()}
    with pytest.raises(OverflowError, match="does not fit"):
        op.push(some([8, 15, 7, 12], [1, 1, 2**62, 2**62]))
    assert op.state() | {"bytes": op.to_bytes()} == before
    got = op.push(some([8], [10]))
    assert got["row"].tolist() == [1, 2, 3]
    assert got["s"].tolist() == [13, 16, 11]
    assert got["revision"].tolist() == [2, 2, 1]


def test_what_has_no_meaning_is_refused():
    spec = mta.rolling("10i", on="t").late("revise", within="5i").agg(n=agg.count())
    with pytest.raises(SpecError, match=r"only where there is a .watermark"):
        spec.stream()
    spec = mta.rolling("10i", on="t").watermark(0).late("revise", within="5i").agg(row=agg.count())
    with pytest.raises(SpecError, match="'row' is the column"):
        spec.stream()


def last_answers(spec, rows):
    op, last = spec.stream(), {}
    for row in rows:
        for answer in read(op.push(build("dict", {"t": ("int64", [row]), "x": ("int64", [row])}))):
            last[answer["row"]] = answer["n"]
    last |= {answer["row"]: answer["n"] for answer in read(op.finish())}
    return [last[row] for row in range(len(rows))]


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("lag", ["0i", "1i"])
def test_peers_that_come_after_a_late_row_find_those_that_were_answered(closed, lag):
    """With an open edge on the right, rows of one time are answered before all of them are there.
    One that came after a late row that fell right before its window's end saw its peers."""
    windows = mta.rolling("2i", on="t", closed=closed, lag=lag).agg(n=agg.count())
    spec = windows.watermark("0i").late("revise", within="2i")
    rows = [4, 3, 4, 5, 4, 5, 3, 6]
    assert last_answers(spec, rows) == windows({"t": np.array(rows)})["n"].tolist()


@pytest.mark.parametrize("lag", [-2, 1, 3])
def test_a_late_row_gives_those_behind_it_other_rows_where_a_window_of_rows_lags(lag):
    windows = mta.rolling(2, on="t", lag=lag).agg(n=agg.sum("t"))
    spec = windows.watermark("3i").late("revise", within="99i")
    rows = [2, 6, 7, 8, -22, 9, 10, -19, -20]
    assert last_answers(spec, rows) == windows({"t": np.array(rows)})["n"].tolist()
