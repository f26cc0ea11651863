"""The table of low-level aggregation: what goes out of it, merged, is what its rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._lowlevel import LowTable
from mta._panes import Panes
from mta._partials import Layout, Partials
from test_panes import ROW, SPECS, Row, add, answers, same

NOTHING = 2**63 - 1
ROWS = st.lists(ROW, max_size=30)
EVERY = st.sampled_from([0, 1, 3])


def layout() -> Layout:
    return Layout(SPECS, 2)


def downstream(parts: list[Partials]) -> dict[Any, Any]:
    """The windows of one pane each, of all that has gone out."""
    panes = Panes(layout())
    for part in parts:
        panes.merge(part, part.codes, part.places)
    return windows(panes)


def windows(panes: Panes) -> dict[Any, Any]:
    at = panes.buckets
    made = answers(panes.close(at, at + 1))
    return {(int(at[place]), code): row for (place, code), row in made.items()}


@given(st.lists(ROWS, max_size=4), st.integers(1, 9), EVERY, st.data())
def test_what_goes_out_is_what_came_in(
    pushes: list[list[Row]], slots: int, every: int, draws: st.DataObject
) -> None:
    """In any order of rows, whatever is called complete or flushed meanwhile."""
    table, direct, parts = LowTable(layout(), slots, every), Panes(layout()), []
    for rows in pushes:
        add(table, rows)  # as Panes.add
        add(direct, rows)
        for _ in range(draws.draw(st.integers(0, 2))):
            before = draws.draw(st.integers(-5, 10))
            draws.draw(st.sampled_from([table.complete, table.flush]))(before)
        assert table.held <= slots
        parts.append(table.take())
    assert table.flush(NOTHING) == NOTHING
    assert table.held == 0
    parts.append(table.take())
    assert same(downstream(parts), windows(direct))


@given(ROWS, st.integers(1, 9), st.integers(-5, 10))
def test_a_flush_leaves_none_of_an_earlier_pane(rows: list[Row], slots: int, before: int) -> None:
    table = LowTable(layout(), slots)
    add(table, rows)
    held = table.held
    gone = len(table.take())
    least = table.flush(before)
    out = table.take()
    assert (out.places < before).all()
    assert table.held == held - len(out)
    assert least >= before
    assert least in {pane for _, pane, *_ in rows} or table.held == 0
    assert gone + held <= len(rows)


def one_each(table: LowTable, codes: Any, pane: int) -> None:
    n = len(codes)
    feeds = [np.zeros(n), np.zeros(n, np.int64)]
    table.add(np.asarray(codes, np.int64), np.full(n, pane), feeds, [None])


def test_rows_of_one_group_and_pane_take_one_slot_and_do_not_go_out() -> None:
    table = LowTable(layout(), 1000)
    one_each(table, [7] * 500, 3)
    assert (table.held, len(table.take())) == (1, 0)
    table.flush(4)
    out = table.take()
    assert (out.codes.tolist(), out.places.tolist(), out.counts(0).tolist()) == ([7], [3], [500])


@pytest.mark.parametrize("every", [1, 5])
def test_slow_flush_puts_one_out_after_every_so_many_rows(every: int) -> None:
    """Of complete panes only; it finds all within as many rows as there are times `every`."""
    table = LowTable(layout(), 200, every)
    assert table.swept
    one_each(table, range(100), 0)
    held = table.held
    table.take()
    one_each(table, [0] * 1000, 0)
    assert len(table.take()) <= 1  # pane 0 may go on
    table.complete(1)
    assert not table.swept
    out = []
    for _ in range(every * (held + 2)):
        one_each(table, [5], 10)
        made = table.take()
        out.append(int((made.places == 0).sum()))
    assert sum(out) == held
    for k in range(len(out) - every):
        assert sum(out[k : k + every]) <= 1 + (k == 0)  # the first may have been there for long
    assert table.swept
    assert table.flush(0) == 10


def test_lazy_flush_puts_out_on_collision_only() -> None:
    table = LowTable(layout(), 50)
    one_each(table, range(50), 0)
    gone, held = len(table.take()), table.held
    table.complete(1)
    assert len(table.take()) == 0
    assert table.held == held
    assert gone + held == 50
    one_each(table, range(50), 1)
    out = table.take()
    assert 0 < (out.places == 0).sum() < held  # some, by the groups that came
    assert table.flush(1) == 1
    assert not table.swept


def test_it_never_grows() -> None:
    table = LowTable(layout(), 64, 7)
    size = table.nbytes
    one_each(table, range(10_000), 0)
    assert table.held <= 64
    assert table.nbytes == size == 64 * (layout().size + 8)


@pytest.mark.parametrize("arguments", [(0,), (2**31,), (5, -1)])
def test_sizes_that_have_no_meaning(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="slot"):
        LowTable(layout(), *arguments)
