"""User monoids in a spec: every kind of frame, pushes in chunks, and what can't be."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import mta
from kinds import KINDS, build, read
from mta import agg
from mta.errors import DataError, SpecError
from oracle import NULL_OR_NAN

VWAP = agg.monoid(
    lambda price, volume: (price * volume, volume),
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda p: p[0] / p[1],
    zero=(0.0, 0.0),
    name="vwap",
)
ABOVE = agg.monoid(lambda x: x > 2, lambda a, b: a or b, zero=False, columns="p")
ITEMS = agg.monoid(lambda x: [x], lambda a, b: a + b, zero=list, columns=["p"])
TRADES = {
    "t": ("int64", [3, 1, 2, 5]),
    "p": ("float64", [1.0, 2.0, None, 4.0]),
    "v": ("int64", [1, 2, 1, 3]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame(kind):
    spec = mta.rolling("3i", on="t").agg(
        VWAP("p", "v"), two=VWAP("p", "v", min_count=2), above=ABOVE, items=ITEMS
    )
    got = read(spec(build(kind, TRADES)))
    assert [row["p_vwap"] for row in got] == [5 / 3, 2.0, 2.0, 3.25]
    assert [row["two"] for row in got[::3]] == [5 / 3, 3.25]
    assert all(row["two"] in (None, NULL_OR_NAN) for row in got[1:3])
    assert [row["above"] for row in got] == [False, False, False, True]
    assert [list(row["items"]) for row in got] == [[2.0, 1.0], [2.0], [2.0], [1.0, 4.0]]


def test_pushed_rows_and_batches_get_the_same_answers():
    rng = np.random.default_rng(1)
    rows = {"p": rng.normal(size=300) ** 3, "v": rng.random(300)}
    spec = mta.rolling(20).agg(w=VWAP("p", "v"))
    whole = spec(rows)["w"]
    op = spec.stream()
    pieces = [op.push({k: x[i : i + 37] for k, x in rows.items()})["w"] for i in range(0, 300, 37)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    window = mta.Window(VWAP("p", "v"), mta.last(20))
    pushed = [window.push(p=p, v=v) for p, v in zip(*rows.values(), strict=True)]
    np.testing.assert_allclose(pushed, whole, rtol=1e-12)


SPREADS = {
    "numbers": agg.monoid(
        lambda x: (x, 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda p: p[0] / (p[1] - 1),
        zero=(0.0, 0),
    ),
    "lists": agg.monoid(
        lambda x: [x], lambda a, b: a + b, lambda p: sum(p) / (len(p) - 1), zero=list
    ),
}


@pytest.mark.parametrize("options", [{"min_count": 2}, {"min_periods": 2}])
@pytest.mark.parametrize("partial", sorted(SPREADS))
def test_too_few_values_are_not_lowered(options, partial):
    """Through Python, that of a single row would be a ZeroDivisionError."""
    spread = SPREADS[partial]
    mine = {"min_count": options.get("min_count", 0)}
    spec = mta.rolling(3, min_periods=options.get("min_periods")).agg(
        two=spread("x", **mine), three=spread("x", min_count=3)
    )
    got = spec({"x": np.array([1.0, 2.0, 3.0])})
    np.testing.assert_array_equal(got["two"], [np.nan, 3.0, 3.0])
    np.testing.assert_array_equal(got["three"], [np.nan, np.nan, 3.0])


def test_booleans_are_booleans_to_lift():
    none_of = agg.monoid(lambda x: not x, lambda a, b: a and b, zero=True, columns="x")
    texts = agg.monoid(lambda x: f"{x} ", lambda a, b: a + b, zero="", columns="x")
    rows = {"x": np.array([True, False, False])}
    got = mta.rolling(2).agg(none=none_of, texts=texts)(rows)
    assert got["none"].tolist() == [False, False, True]
    assert got["texts"].tolist() == ["True ", "True False ", "False False "]


def test_objects_in_polars():
    answers = mta.rolling(2).agg(x=agg.monoid(lambda x: {x}, set.union, zero=set, columns="p"))
    assert answers(pl.DataFrame({"p": [1, 2]}))["x"].to_list() == [{1}, {1, 2}]


def test_it_prints_as_the_call():
    made = agg.monoid(abs, max, zero=0, name="peak")("x", min_count=2)
    assert repr(made) == "agg.monoid(abs, max, zero=0, name='peak')('x', min_count=2)"
    assert made == agg.monoid(abs, max, zero=0, name="peak")("x", min_count=2)
    assert made.default_name == "x_peak"


def test_what_can_not_be():
    with pytest.raises(SpecError, match="functions can't be written as JSON"):
        mta.rolling(2).agg(VWAP("p", "v")).to_json()
    with pytest.raises(SpecError, match="lift must take 1 value"):
        VWAP("p")
    with pytest.raises(SpecError, match="is not an aggregate"):
        mta.rolling(2).agg(w=VWAP)
    with pytest.raises(TypeError, match="can't multiply") as raised:
        mta.rolling(2).agg(VWAP("p", "v"))({"p": np.array(["a"]), "v": np.array([1.0])})
    assert "raised by lift for lift('a', 1.0), row 0" in raised.value.__notes__[0]


def test_explain_says_how_it_runs():
    spec = mta.rolling(2).agg(items=ITEMS)
    spec({"p": np.array([1.0])})
    assert "through Python (" in spec.explain()


# ------------------------------------------------------------------------- the type of answers

GIVEN = {"float": [1.0, 3.0, 6.0], "int": [1, 3, 6], "bool": [True, True, True]}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("gives", sorted(GIVEN))
def test_answers_are_of_the_type_that_was_said(gives, compiled):
    lower = {"float": lambda s: s, "int": lambda s: s, "bool": lambda s: s > 0}[gives]
    lift = (lambda x: x) if compiled else (lambda x: eval("x"))  # numba has no eval
    total = agg.monoid(lift, lambda a, b: a + b, lower, zero=0, gives=gives)
    got = mta.rolling(3).agg(s=total("x"))({"x": np.array([1, 2, 3])})["s"]
    assert got.tolist() == GIVEN[gives]
    assert got.dtype == {"float": np.float64, "int": np.int64, "bool": np.bool_}[gives]
    assert total.compiled == compiled


@pytest.mark.parametrize(
    ("gives", "wrong"), [("int", 0.5), ("bool", 1), ("float", "1"), ("int", 2**63)]
)
def test_answers_of_another_type_are_refused(gives, wrong):
    total = agg.monoid(lambda x: [x], lambda a, b: a + b, lambda s: wrong, zero=list, gives=gives)
    with pytest.raises(DataError, match=f"gives='{gives}', but lower gave"):
        mta.rolling(3).agg(s=total("x"))({"x": np.array([1, 2, 3])})


def test_compiled_answers_of_another_type_are_refused():
    half = agg.monoid(lambda x: x, max, lambda s: s / 2, zero=0, gives="int")
    with pytest.raises(SpecError, match="lower gives a float over int"):
        mta.rolling(3).agg(s=half("x"))({"x": np.array([1, 2, 3])})
    with pytest.raises(SpecError, match="gives must be one of"):
        agg.monoid(lambda x: x, max, zero=0, gives="text")


# ------------------------------------------------------------------------------ columns of text

WORDS = {"t": ("int64", [1, 2, 3, 3, 9]), "w": ("string", ["a", "b", None, "a", "b"])}
LINES = ["a", "ab", "aba", "aba", "b"]
SENTENCE = agg.monoid(lambda w: w, lambda a, b: a + b, zero="", columns="w")


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_lifted_as_texts(kind):
    spec = mta.rolling("3i", on="t").agg(s=SENTENCE, twice=agg.monoid(
        lambda w, t: w * t, lambda a, b: a + b, zero="", columns=["w", "t"]
    ))  # fmt: skip
    frame = build(kind, WORDS)
    assert [row["s"] for row in read(spec(frame))] == LINES
    assert read(spec(frame))[-1]["twice"] == "b" * 9
    op, columns = spec.stream(), {n: (t, [[v] for v in values]) for n, (t, values) in WORDS.items()}
    rows = [{n: (t, values[i]) for n, (t, values) in columns.items()} for i in range(5)]
    pushed = [row for part in rows for row in read(op.push(build(kind, part)))]
    assert [row["s"] for row in pushed + read(op.finish())] == LINES


def test_texts_are_lifted_as_texts_where_they_are_pushed():
    """Far more of them than the window holds, and nulls before the first."""
    aggs = {"s": SENTENCE, "d": agg.approx_count_distinct("w"), "last": agg.last("w")}
    words = [None, None, *(f"w{i % 11}" if i % 7 else None for i in range(200)), "a", "a"]
    window, pushed = mta.Window(aggs, mta.last(4)), []
    for number, word in enumerate(words):
        pushed.append(window.push(word)._asdict())
        if number % 60 == 1:
            window = mta.Window.from_bytes(window.to_bytes(), aggs, mta.last(4))
    assert pushed == read(mta.rolling(4).agg(**aggs)(build("pyarrow", {"w": ("string", words)})))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_python_may_be_null(kind):
    got = mta.rolling(1).agg(s=SENTENCE)(build(kind, {"w": ("string", [None, "a", None])}))
    assert [row["s"] for row in read(got)] == [None, "a", None]


def test_times_are_refused():
    first = agg.monoid(lambda t: t, lambda a, b: a, zero=0, columns="t")
    with pytest.raises(DataError, match="needs numbers, booleans or texts, but column 't' is"):
        mta.rolling(2).agg(first=first)({"t": np.array([1], "M8[s]")})


@pytest.mark.parametrize("type_", ["string", "int64", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_with_nothing_but_nulls_tell_no_type(kind, type_):
    """One has a track, with many rows, and the other is in the pool: they are answered apart."""
    later = agg.monoid(lambda x: x, lambda a, b: b if a == "" else a, zero="", name="first")
    spec = mta.rolling(90, by="k").agg(a=later("x", min_count=1))
    value = {"string": "text", "int64": 2**60 + 1, "float64": 0.5}[type_]
    columns = {"k": ("int64", [2] + [0] * 60 + [1]), "x": (type_, [value] + [None] * 60 + [value])}
    first, then = (
        {name: (of, items[part]) for name, (of, items) in columns.items()}
        for part in (slice(60), slice(60, None))
    )
    op = spec.stream()
    op.push(build(kind, first))
    got, wanted = op.push(build(kind, then))["a"], spec(build(kind, columns))["a"][60:]
    assert repr(list(got)) == repr(list(wanted))
    assert getattr(got, "dtype", 0) == getattr(wanted, "dtype", 0)
