"""The compiled watermark is the one that the words say, row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mta.progress import Progress, SourceCodes
from plain_progress import PlainProgress

TIMES = st.one_of(st.integers(-5, 60), st.integers(-(10**4), 10**4))
EVENT = st.one_of(
    st.tuples(
        st.just("see"), st.lists(st.tuples(TIMES, st.sampled_from([None, *"abcde"])), max_size=8)
    ),
    st.tuples(st.just("promise"), TIMES, st.sampled_from("abcf"), st.booleans()),
    st.tuples(st.just("silence"), st.sampled_from("abcf")),
    st.tuples(st.just("one"), st.lists(TIMES, max_size=5)),
    st.tuples(st.just("save")),
)


def told(event, plain, compiled):
    """Let both know; what they say of rows."""
    name, *arguments = event
    if name == "promise" or name == "silence":
        getattr(plain, name)(*arguments)
        getattr(compiled, name)(*arguments)
        return [], []
    names = None if name == "one" else [source for _, source in arguments[0]]
    ts = arguments[0] if name == "one" else [t for t, _ in arguments[0]]
    known = list(dict.fromkeys(names or []))
    codes = np.array([known.index(s) for s in names or []], np.int64)
    of = None if names is None else SourceCodes(known, codes)
    before, after = compiled.see(np.array(ts, np.int64), of)
    return plain.see(ts, names), (before.tolist(), after.tolist())


@given(
    st.lists(EVENT, max_size=12), st.one_of(st.none(), st.integers(0, 9)),
    st.one_of(st.none(), st.integers(0, 20)), st.one_of(st.none(), st.integers(0, 20)),
    st.sampled_from([(), ("a",), ("a", "b", "g")]), st.sampled_from(["min", "max"]),
)  # fmt: skip
def test_the_compiled_watermark_is_the_plain_one(events, delay, idle, ahead, declared, combine):
    options = (delay, idle, ahead, declared, combine)
    plain, compiled = PlainProgress(*options), Progress(*options)
    for event in events:
        if event[0] == "save":
            again = Progress(*options)
            again.resume(compiled.now, compiled.sources.items())
            compiled = again.copy()
            continue
        want, got = told(event, plain, compiled)
        assert tuple(map(list, want)) == tuple(map(list, got))
        assert compiled.now == plain.now
        assert {n: vars(s) for n, s in compiled.sources.items()} == {
            n: vars(s) for n, s in plain.sources.items()
        }


def test_times_at_the_ends_of_64_bits():
    progress = Progress(2**70, None, 5)
    ends = np.array([-(2**63), 2**63 - 1, 2**63 - 1, 0])
    assert progress.see(ends, None)[1].tolist() == [-(2**63)] * 2 + [0] * 2
