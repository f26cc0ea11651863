"""Specs as values: equality, hash, the code that makes them, JSON."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest
from hypothesis import given

import mta
from kinds import build, read
from mta import agg
from mta.errors import SpecError
from strategies import data, engine_spec, rollings

EXAMPLE = mta.rolling(
    "24h", on="ts", by=["card", "shop"], closed="left", lag="5m", min_periods=2
).agg(n=agg.count(), total=agg.sum("x", min_count=3, nan="skip"), sd=agg.std("x", ddof=0))


@given(rollings())
def test_repr_is_the_code_that_makes_it(spec):
    spec = engine_spec(spec)
    again = eval(repr(spec), {"mta": mta, "agg": agg})
    assert again == spec and hash(again) == hash(spec) and repr(again) == repr(spec)


@given(rollings())
def test_json_round_trip(spec):
    spec = engine_spec(spec)
    text = spec.to_json()
    assert json.loads(text) is not None
    again = mta.spec_from_json(text)
    assert again == spec and hash(again) == hash(spec) and type(again) is type(spec)
    assert mta.Spec.from_json(text) == spec
    assert again.to_json() == text


@given(data(max_size=10), rollings())
def test_a_spec_from_json_gives_the_same_answers(sample, spec):
    spec = engine_spec(spec)
    frame = build("pyarrow", sample.columns)
    assert repr(read(spec(frame))) == repr(read(mta.spec_from_json(spec.to_json())(frame)))


@pytest.mark.parametrize(
    "other",
    [
        mta.rolling("24h", on="ts").agg(n=agg.count()),
        mta.rolling("24h", on="ts", by="card").agg(n=agg.count(min_count=1)),
        mta.rolling("24h", on="ts", by="card").agg(m=agg.count()),
        mta.rolling("24h", on="ts", by="card").agg(n=agg.count("x")),
        mta.rolling("25h", on="ts", by="card").agg(n=agg.count()),
        mta.rolling("24h", on="t", by="card").agg(n=agg.count()),
        mta.rolling("24h", on="ts", by="card", closed="both").agg(n=agg.count()),
        mta.rolling("24h", on="ts", by="card", ties="arrival").agg(n=agg.count()),
        mta.rolling("24h", on="ts", by="card", lag="1h").agg(n=agg.count()),
        mta.rolling("24h", on="ts", by="card", min_periods=1).agg(n=agg.count()),
        mta.rolling(24, on="ts", by="card").agg(n=agg.count()),
        mta.rolling("24i", on="ts", by="card").agg(n=agg.count()),
        mta.rolling(None, on="ts", by="card").agg(n=agg.count()),
    ],
    ids=repr,
)
def test_every_part_counts_in_equality(other):
    spec = mta.rolling("24h", on="ts", by="card").agg(n=agg.count())
    assert spec != other and spec.to_json() != other.to_json()
    assert len({spec, other, mta.spec_from_json(spec.to_json())}) == 2


def test_equality_with_other_things():
    for other in ("spec", None, 3, EXAMPLE.to_json(), EXAMPLE.aggs):
        assert other != EXAMPLE


def test_the_order_of_answers_is_part_of_the_spec():
    one = mta.rolling(2).agg(a=agg.count(), b=agg.sum("x"))
    two = mta.rolling(2).agg(b=agg.sum("x"), a=agg.count())
    assert one != two
    assert [name for name, _ in mta.spec_from_json(two.to_json()).aggs] == ["b", "a"]


def test_the_parts_can_be_read():
    assert EXAMPLE.on == "ts" and list(EXAMPLE.by) == ["card", "shop"]
    assert (EXAMPLE.closed, EXAMPLE.ties, EXAMPLE.min_periods) == ("left", "peers", 2)
    assert [name for name, _ in EXAMPLE.aggs] == ["n", "total", "sd"]
    assert EXAMPLE.aggs[2][1] == agg.std("x", ddof=0)
    assert EXAMPLE.range == mta.rolling("24h", on="t").agg(agg.count()).range
    assert EXAMPLE.lag == mta.rolling("1h", on="t", lag="5m").agg(agg.count()).lag


def test_a_spec_can_not_be_changed():
    for name in ("on", "by", "range", "closed", "lag", "ties", "min_periods", "aggs", "extra"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(EXAMPLE, name, None)
    with pytest.raises(TypeError):
        EXAMPLE.aggs["n"] = agg.count()
    keys = ["card", "shop"]
    spec = mta.rolling(3, by=keys).agg(agg.count())
    keys.append("more")
    assert list(spec.by) == ["card", "shop"]


@pytest.mark.parametrize(
    "range_",
    [dt.timedelta(minutes=90), np.timedelta64(90, "m"), np.timedelta64(5400, "s")],
    ids=repr,
)
def test_durations_of_other_types_survive(range_):
    spec = mta.rolling(range_, on="t").agg(agg.count())
    assert mta.spec_from_json(spec.to_json()) == spec
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec


@pytest.mark.parametrize(
    "name",
    ["class", "None", "self", "with space", "naïve", "quote'\"s", "back\\slash", "{brace}", "日本"],
)
def test_column_names_of_any_letters(name):
    spec = mta.rolling(2, on=name, by=name + "k").agg(**{name: agg.sum(name + "x")})
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec
    assert mta.spec_from_json(spec.to_json()) == spec
    frame = build("pyarrow", {
        name: ("int64", [1, 2]), name + "k": ("int64", [1, 1]), name + "x": ("int64", [1, 2]),
    })  # fmt: skip
    assert read(spec(frame)) == [{name: 1}, {name: 3}]


def test_aggregates_are_values_too():
    assert agg.sum("x") == agg.sum("x") and hash(agg.sum("x")) == hash(agg.sum("x"))
    others = [agg.sum("y"), agg.mean("x"), agg.sum("x", min_count=1), agg.sum("x", nan="skip")]
    assert len({agg.sum("x"), *others}) == 5
    assert agg.var("x") == agg.var("x", ddof=1) != agg.var("x", ddof=0)
    for one in (
        *others,
        agg.count(),
        agg.count("x"),
        agg.count_all(min_count=2),
        agg.std("x", ddof=3),
    ):
        assert eval(repr(one), {"agg": agg}) == one


def _change(**changes):
    content = json.loads(EXAMPLE.to_json())
    return json.dumps(content | changes)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "3", "{}", '"rolling"', "{", '{"a": 1}', EXAMPLE.to_json()[:-1],
     EXAMPLE.to_json() + "x", '{"mta": 999}'],
    ids=repr,
)  # fmt: skip
def test_foreign_json_is_refused(text):
    with pytest.raises(SpecError):
        mta.spec_from_json(text)


def test_json_with_unknown_parts_is_refused():
    """A field that this version doesn't know may change the meaning: never ignore it."""
    with pytest.raises(SpecError, match="surprise"):
        mta.spec_from_json(_change(surprise=1))


@pytest.mark.parametrize("key", sorted(json.loads(EXAMPLE.to_json())))
def test_json_with_a_part_of_a_wrong_type_is_refused(key):
    for bad in ({"what": 1}, [[[]]], -7.5):
        with pytest.raises(SpecError):
            mta.spec_from_json(_change(**{key: bad}))


@pytest.mark.parametrize("window", [[], {}, None, "", "sliding", 3], ids=repr)
def test_json_of_an_unknown_window_is_refused(window):
    with pytest.raises(SpecError, match="window"):
        mta.spec_from_json(_change(window=window))


@pytest.mark.parametrize(
    "aggs",
    [
        [{"name": "s", "fn": "sum", "column": "x"}, {"name": "s", "fn": "max", "column": "x"}],
        [{"name": 3, "fn": "count"}],
        [{"fn": "count"}],
        [{"name": "s", "column": "x"}],
        [{"name": "s", "fn": "sum", "column": "x", "surprise": 1}],
        [{"name": "s", "fn": ["sum"], "column": "x"}],
        [{"name": "s", "fn": "sum", "column": "x", "nan": ["skip"]}],
    ],
    ids=["twice", "number", "nameless", "no function", "surprise", "list", "option"],
)
def test_json_with_bad_aggregates_is_refused(aggs):
    with pytest.raises(SpecError):
        mta.spec_from_json(_change(aggs=aggs))


@pytest.mark.parametrize("text", [b"{}", None, 3])
def test_json_has_to_be_text(text):
    with pytest.raises((SpecError, TypeError)):
        mta.spec_from_json(text)
