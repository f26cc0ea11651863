"""Rows for windows on a store: many panes, disorder, groups that come and go, odd floats."""

from __future__ import annotations

import numpy as np

import mta
from mta import agg

SUMS = {"n": agg.count(), "s": agg.sum("x"), "m": agg.mean("x"), "si": agg.sum("i")}
ALL = {**SUMS, "lo": agg.min("x", nan="skip"), "hi": agg.max("i"), "c": agg.count("x")}


def rows_of(n: int, seed: int = 0, *, groups: int = 12, jitter: int = 12) -> dict[str, np.ndarray]:
    """n rows of `groups` groups at a time, which are others every 1,000 rows."""
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.integers(0, 3, n)) + rng.integers(-jitter, jitter + 1, n)
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)
    for odd in (np.nan, np.inf, -np.inf):
        x[rng.integers(0, n, max(1, n // 200))] = odd
    k = rng.integers(0, groups, n) + np.arange(n) // 1000 * groups
    return {"ts": ts, "k": k, "x": x, "i": rng.integers(-(2**50), 2**50, n)}


def spec_of(aggs=None, *, length: int = 300, slide: int = 20, delay: int = 20):
    """Windows over them."""
    spec = mta.hopping(f"{length}i", slide=f"{slide}i", on="ts", by="k")
    return spec.watermark(f"{delay}i").agg(**(aggs or ALL))


def part(rows, start: int, stop: int):
    return {name: column[start:stop] for name, column in rows.items()}


def bits(answers) -> dict[tuple, tuple]:
    """Answers by window and group, to the last bit."""
    names = sorted(answers)
    columns = [np.asarray(answers[name]).view(np.int64).tolist() for name in names]
    keys = zip(answers["start"].tolist(), answers["k"].tolist(), strict=True)
    return dict(zip(keys, zip(*columns, strict=True), strict=True))


def plain(answers, by=("start", "k")) -> dict[tuple, tuple]:
    """Answers of any type by window and group; a NaN is None."""
    names = sorted(set(answers) - {"start", "k"})
    columns = [[_plain(value) for value in answers[name]] for name in names]
    keys = zip(*(answers[name].tolist() for name in by), strict=True)
    return dict(zip(keys, zip(*columns, strict=True), strict=True))


def revised(answers) -> dict[tuple, tuple]:
    """The same of windows that are answered again."""
    return plain(answers, ("start", "k", "revision"))


def _plain(value):
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return value.tolist() if hasattr(value, "tolist") else value


def answered(op, rows, step: int, start: int = 0, told=bits) -> dict[tuple, tuple]:
    """The answers of rows from `start` on that are pushed so many at a time, and of `finish`.

    told : by window and group what an answer is
    """
    got: dict[tuple, tuple] = {}
    for at in range(start, len(rows["ts"]), step):
        got |= told(op.push(part(rows, at, at + step)))
    return got | told(op.finish())
