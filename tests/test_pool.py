"""Keys that share a pool: what they hold, how they leave it, and that a call is all or nothing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import mta
from mta import agg
from mta.errors import SnapshotError
from mta.plan import make_plan
from mta.pool_room import rows_for_a_track
from mta.snapshot import seal, unseal
from test_stream import tracks_at

EVERYTHING = {
    "n": agg.count(), "s": agg.sum("x"), "e": agg.sum("x", numerics="exact"),
    "f": agg.sum("x", numerics="fast"), "d": agg.std("x"), "hi": agg.max("x"),
    "q": agg.median("x"), "u": agg.count_distinct("x"), "w": agg.skew("x"), "l": agg.last("c"),
    "o": agg.mode("c"), "i": agg.sum("i"), "g": agg.top_k("i", 2), "r": agg.cov("x", "i"),
}  # fmt: skip


def rows(n, keys, disorder=0, seed=1):
    """Sums over far apart magnitudes: their last bits tell where kernels stood."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "t": np.arange(n) + rng.integers(0, disorder + 1, n),
        "k": rng.integers(0, keys, n),
        "x": rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n),
        "i": pd.array(np.where(rng.random(n) < 0.1, None, rng.integers(-9, 9, n)), "Int64"),
        "c": pd.Series(rng.choice(["a", "b", None], n), dtype="string"),
    })  # fmt: skip


def in_pieces(spec, frame, size, save=False):
    op, made = spec.stream(), []
    for start in range(0, len(frame), size):
        made.append(op.push(frame.iloc[start : start + size]))
        if save:
            op = spec.stream(op.to_bytes())
    return pd.concat([*made, op.finish()]).sort_index(), op


@pytest.mark.parametrize("cost", [0, 2000, 60_000])
@pytest.mark.parametrize("save", [False, True])
def test_every_aggregate_is_that_of_a_batch_to_the_last_bit(cost, save):
    frame = rows(1500, 7, disorder=20)
    spec = mta.rolling("300i", on="t", by="k").agg(**EVERYTHING)
    with tracks_at(cost):
        got, op = in_pieces(spec.watermark("20i"), frame, 131, save)
    want = spec(frame)
    pd.testing.assert_frame_equal(got[list(EVERYTHING)], want, check_exact=True)
    assert len(op.keyed.tracks) == (0 if cost == 60_000 else 7)


def test_a_key_with_many_rows_leaves_the_pool_and_goes_on():
    frame = rows(4000, 3)
    frame.loc[frame["k"] == 1, "k"] = np.where(np.arange(4000)[frame["k"] == 1] % 50, 2, 1)
    spec = mta.rolling("1000i", on="t", by="k").agg(**EVERYTHING)
    with tracks_at(100 * 60_000 // rows_for_a_track(make_plan(spec.asked, 0))):
        got, op = in_pieces(spec, frame, 100)
    (names,) = op.keyed.groups.keys(np.array(sorted(op.keyed.tracks)))
    assert sorted(names.values) == [0, 2]
    assert op.keyed.pool.live == op.keyed.pool.of("kept").sum() > 0
    pd.testing.assert_frame_equal(got, spec(frame), check_exact=True)


def test_what_costs_more_a_row_gets_a_track_sooner():
    def long(**aggs):
        return rows_for_a_track(make_plan(tuple(aggs.items()), 0))

    assert (
        long(s=agg.sum("x")) > long(s=agg.sum("x"), q=agg.median("x")) > long(h=agg.hll_sketch("x"))
    )


def test_a_push_that_fails_leaves_no_key_and_no_row():
    spec = mta.rolling("10i", on="t", by="k").agg(s=agg.sum("i"), x=agg.sum("x"))
    most = 2**63 - 1
    good = {"t": [1, 2, 3], "k": [1, 2, 1], "i": [5, 6, 7], "x": [0.1, 0.2, 0.3]}
    bad = {"t": [4, 4, 5, 6], "k": [3, 1, 3, 2], "i": [most, 1, most, 1], "x": [0.1] * 4}
    more = {"t": [6, 7], "k": [3, 1], "i": [1, 2], "x": [0.5, 0.7]}
    good, bad, more = ({n: np.array(v) for n, v in rows.items()} for rows in (good, bad, more))
    failed, clean = spec.stream(), spec.stream()
    for op in (failed, clean):
        op.push(good)
    before = failed.to_bytes()
    with pytest.raises(OverflowError, match="of row 1 "):
        failed.push(bad)
    assert failed.to_bytes() == before
    assert failed.state() == clean.state()
    for got, want in ((failed.push(more), clean.push(more)), (failed.finish(), clean.finish())):
        assert {name: got[name].tolist() for name in got} == {n: want[n].tolist() for n in want}


def test_places_of_rows_that_are_gone_are_given_back():
    spec = mta.rolling("100i", on="t", by="k").watermark("5i").agg(s=agg.sum("x"), l=agg.last("c"))
    op = spec.stream()
    frame = rows(60_000, 40, disorder=5)
    for start in range(0, len(frame), 250):
        op.push(frame.iloc[start : start + 250])
        pool = op.keyed.pool
        assert pool.rows.end <= 2 * pool.live + 1024
        assert len(pool.times) == pool.rows.end == len(pool.rows.values["c"].native)
        assert pool.live < 40 * 60
    assert not op.keyed.tracks


def test_keys_that_are_gone_leave_nothing():
    spec = mta.rolling("10i", on="t", by="k").watermark("0i").agg(s=agg.sum("x"))
    op = spec.stream()
    for start in range(0, 100_000, 1000):
        op.push({"t": np.arange(start, start + 1000), "k": np.arange(start, start + 1000) // 7,
                 "x": np.ones(1000)})  # fmt: skip
    assert op.state()["keys"] < 500
    assert op.keyed.pool.rows.end < 5000


@pytest.mark.parametrize("field", ["begin", "kept", "received", "answered", "open", "hi"])
def test_a_snapshot_whose_keys_have_other_rows_is_refused(field, monkeypatch):
    spec = mta.rolling("10i", on="t", by="k").agg(s=agg.sum("x"))
    op = spec.stream()
    op.push({"t": np.arange(20), "k": np.arange(20) % 3, "x": np.ones(20)})
    told = op.keyed.pool.compact()
    monkeypatch.setattr(op.keyed.pool, "compact", lambda: told)  # which would mend some of it
    op.keyed.pool.of(field)[1] += 1000
    with pytest.raises(SnapshotError, match="damaged"):
        spec.stream(op.to_bytes())


def test_a_snapshot_has_its_keys_as_arrays():
    spec = mta.rolling("10i", on="t", by="k").agg(s=agg.sum("x"))
    op = spec.stream()
    op.push({"t": np.arange(5000), "k": np.arange(5000), "x": np.ones(5000)})
    head, *parts = unseal("stream", spec.identity(), op.to_bytes())
    assert len(head) < 1000
    assert json.loads(head)["states"] == []
    again = spec.stream(seal("stream", spec.identity(), [head, *parts]))
    assert again.to_bytes() == op.to_bytes()


def test_a_key_that_has_come_since_the_last_answer_is_in_a_snapshot():
    """Its kernels have no marks yet."""
    spec = mta.rolling("10i", on="t", by="k").watermark("5i").agg(s=agg.sum("x"))
    op, whole = spec.stream(), spec.stream()
    for t in (np.arange(10), np.array([9])):  # the second has another key, and brings no answer
        rows = {"t": t, "k": t * 0 + len(t), "x": t * 0.1}
        assert op.push(rows)["s"].tolist() == whole.push(rows)["s"].tolist()
        op = spec.stream(op.to_bytes())
    assert op.finish()["s"].tolist() == whole.finish()["s"].tolist()


@pytest.mark.parametrize("window", [12, 20, 40])
def test_sketches_are_cut_where_a_batch_cuts_them(window):
    spec = mta.rolling(window, by="k").agg(q=agg.approx_quantile("x", 0.5, k=8))
    rng = np.random.default_rng(0)
    data = {"k": rng.integers(0, 6, 2000), "x": rng.normal(size=2000)}
    op = spec.stream()
    with tracks_at(10**9):  # all keys stay in the pool
        parts = [{n: c[at : at + 100] for n, c in data.items()} for at in range(0, 2000, 100)]
        got = [op.push(part)["q"] for part in parts]
    assert np.concatenate(got).tobytes() == spec(data)["q"].tobytes()
