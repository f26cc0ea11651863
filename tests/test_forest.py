"""The dyadic forest alone: every operation against brute force, and what each one costs.

String concatenation does not commute, so any mix-up of order shows; writing the brackets as well
shows in which order the forest combined, which must depend on positions only.
"""

from __future__ import annotations

import gc
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._core import Forest

WINDOWS = [1, 2, 3, 7, 8, 9, 64, 100, 1000, 4096, 5000]


class Strings:
    """Concatenation that counts its calls and can be told to fail."""

    def __init__(self, brackets: bool = False):
        self.calls = 0
        self.fail_at = -1
        self.brackets = brackets

    def __call__(self, a: str, b: str) -> str:
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("told to fail")
        return f"({a}{b})" if self.brackets and a and b else a + b

    def forest(self) -> Forest:
        return Forest("object", "object", combine=self, zero="")


def strings(brackets: bool = False) -> Forest:
    return Strings(brackets).forest()


def letter(position: int) -> str:
    return chr(ord("a") + position % 26)


# ---- brute force -----------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(1, 9)),
        st.tuples(st.just("insert"), st.integers(1, 40)),
        st.tuples(st.just("evict"), st.floats(0, 1)),
        st.tuples(st.just("evict one"), st.integers(1, 5)),
        st.tuples(st.just("retract"), st.integers(1, 3)),
        st.tuples(st.just("query"), st.none()),
    ),
    max_size=60,
)


def apply(forest: Forest, inside: list[str], operation: str, amount, position: int) -> int:
    """One operation on the forest and on the list; returns the next letter's number."""
    if operation == "insert":
        for _ in range(amount):
            value = None if position % 11 == 5 else letter(position)
            forest.insert(value)
            inside.append(value or "")
            position += 1
    elif operation == "evict":
        n = round(amount * len(inside))
        forest.evict(n)
        del inside[:n]
    elif operation == "evict one":
        for _ in range(min(amount, len(inside))):
            forest.evict()
            del inside[0]
    elif operation == "retract":
        for _ in range(min(amount, len(inside))):
            forest.retract()
            inside.pop()
    return position


@given(OPERATIONS, st.booleans())
def test_any_operations_against_a_list(operations, look_after_each):
    forest, inside, position = strings(), [], 0
    for operation, amount in operations:
        position = apply(forest, inside, operation, amount, position)
        assert len(forest) == len(inside) == forest.back - forest.front
        if look_after_each or operation == "query":
            assert forest.query() == "".join(inside)
    assert forest.query() == "".join(inside)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33])
def test_every_slide_of_every_small_window(size):
    forest = strings()
    for back in range(1, 200):
        forest.insert(letter(back - 1))
        if back > size:
            forest.evict()
        expected = "".join(letter(p) for p in range(max(0, back - size), back))
        assert forest.query() == expected


def test_every_interval_reached_by_one_bulk_eviction():
    for back in range(1, 70):
        for front in range(back + 1):
            forest = strings()
            for p in range(back):
                forest.insert(letter(p))
            forest.evict(front)
            assert forest.query() == "".join(letter(p) for p in range(front, back))
            forest.insert("!")
            assert forest.query().endswith("!") and len(forest.query()) == back - front + 1


def test_bad_evictions_change_nothing():
    forest = strings()
    for bad in (1, -1):
        with pytest.raises(IndexError):
            forest.evict(bad)
    with pytest.raises(IndexError):
        forest.retract()
    for p in range(5):
        forest.insert(letter(p))
    with pytest.raises(IndexError):
        forest.evict(6)
    forest.evict(0)
    assert (len(forest), forest.query()) == (5, "abcde")


def test_restart_forgets_everything():
    forest = strings()
    for p in range(37):
        forest.insert(letter(p))
    forest.restart()
    assert (len(forest), forest.front, forest.back, forest.query()) == (0, 0, 0, "")
    forest.insert("x")
    assert forest.query() == "x"


# ---- canonical results -----------------------------------------------------------------------


def bracketed(front: int, back: int) -> str:
    """How the window's interval is combined, reached in the plainest way."""
    forest = strings(brackets=True)
    for p in range(back):
        forest.insert(letter(p))
    forest.evict(front)
    return forest.query()


@given(OPERATIONS)
def test_the_order_of_combining_depends_on_positions_only(operations):
    """However a window came to be, it is combined as if built at once: hence equal doubles."""
    forest, inside = strings(brackets=True), []
    for operation, amount in operations:
        if operation == "insert":  # the letter at a position must not depend on history
            for _ in range(amount):
                forest.insert(letter(forest.back))
                inside.append("")
        else:
            apply(forest, inside, operation, amount, 0)
        if operation == "query":
            forest.query()
    assert forest.query() == bracketed(forest.front, forest.back)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=80), st.data())
def test_float_sums_do_not_depend_on_history(values, draw):
    front = draw.draw(st.integers(0, len(values) - 1))
    at_once, sliding = Forest("sum"), Forest("sum")
    for value in values:
        at_once.insert(value)
    at_once.evict(front)
    for back, value in enumerate(values, 1):
        sliding.insert(value)
        while sliding.front < front * back // len(values):
            sliding.evict()
        sliding.query("sum")
    assert sliding.front == at_once.front
    assert repr(sliding.query("sum")) == repr(at_once.query("sum"))


# ---- cost, counted ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", WINDOWS)
def test_a_slide_costs_four_combines_amortised(size):
    combine = Strings()
    forest = combine.forest()
    for _ in range(size):
        forest.insert("a")
    steps = max(4 * size, 2000)
    combine.calls = 0
    worst = 0
    for _ in range(steps):
        before = combine.calls
        forest.insert("a")
        forest.evict()
        forest.query()
        worst = max(worst, combine.calls - before)
    assert combine.calls / steps <= 4.1
    assert worst <= 4 * math.log2(2 * size) + 6


@pytest.mark.parametrize("size", [10, 100, 1000, 10_000, 60_000])
def test_bulk_eviction_costs_a_logarithm(size):
    rng = random.Random(size)
    for _ in range(12):
        combine = Strings()
        forest = combine.forest()
        for _ in range(size):
            forest.insert("")
        forest.query()
        combine.calls = 0
        forest.evict(rng.randrange(size + 1))
        forest.query()
        assert combine.calls <= 2 * math.log2(size) + 4


def test_evict_one_by_one_costs_a_constant_amortised():
    combine = Strings()
    forest = combine.forest()
    for _ in range(5000):
        forest.insert("")
    combine.calls = 0
    for _ in range(5000):
        forest.evict()
    assert combine.calls <= 5000 * 1.5 + 30


def test_growth_and_shrinking_stay_cheap():
    """Windows that breathe: ever more rows, then none, again and again."""
    rng, combine = random.Random(2), Strings()
    forest, operations = combine.forest(), 0
    for _ in range(30):
        for _ in range(rng.randrange(2000)):
            forest.insert("")
            operations += 1
        forest.evict(rng.randrange(len(forest) + 1))
        operations += 1
    assert combine.calls <= 3 * operations + 30 * 40


def test_memory_follows_the_window_and_not_the_stream():
    forest = Forest("sum")
    for i in range(200_000):
        forest.insert(float(i))
        if len(forest) > 1000:
            forest.evict()
    assert forest.nbytes <= 2 * 2048 * 16 * 2


class Counted(str):
    alive = 0

    def __new__(cls, text):
        cls.alive += 1
        return super().__new__(cls, text)

    def __del__(self):
        Counted.alive -= 1


def test_python_values_that_left_are_let_go():
    Counted.alive = 0
    forest = Forest("object", "object", combine=lambda a, b: Counted(b), zero=Counted(""))
    for i in range(20_000):
        forest.insert(Counted(letter(i)))
        if len(forest) > 50:
            forest.evict()
    gc.collect()
    assert Counted.alive < 50 * 60
    assert forest.query() == letter(19_999)
    del forest
    gc.collect()
    assert Counted.alive == 0


# ---- failure ---------------------------------------------------------------------------------


@given(OPERATIONS, st.data())
def test_a_combine_that_fails_changes_nothing(operations, draw):
    """The operation that meets the error has not happened, and everything after it is right."""
    combine = Strings()
    forest, inside, position = combine.forest(), [], 0
    for operation, amount in operations:
        if operation == "insert" and draw.draw(st.booleans(), label="fail"):
            combine.fail_at = combine.calls + draw.draw(st.integers(1, 6), label="after")
            try:
                forest.insert(letter(position))
            except RuntimeError:
                pass
            else:
                inside.append(letter(position))
            combine.fail_at = -1
            position += 1
        elif operation == "evict" and draw.draw(st.booleans(), label="fail"):
            combine.fail_at = combine.calls + draw.draw(st.integers(1, 6), label="after")
            n = round(amount * len(inside))
            try:
                forest.evict(n)
            except RuntimeError:
                pass
            else:
                del inside[:n]
            combine.fail_at = -1
        else:
            position = apply(forest, inside, operation, amount, position)
        assert len(forest) == len(inside)
        assert forest.query() == "".join(inside)


@pytest.mark.parametrize("bad", ["median", "", "Sum"])
def test_unknown_monoids_are_refused(bad):
    with pytest.raises(ValueError, match=repr(bad)):
        Forest(bad)


def test_a_python_monoid_needs_its_combine():
    with pytest.raises(TypeError, match="combine"):
        Forest("object", "object")
