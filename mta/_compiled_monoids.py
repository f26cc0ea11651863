"""User monoids compiled by numba: two C functions that a kernel calls through their addresses.

`compile_monoid` finds the type of the partial, generates the loops below for it and compiles them
with lift, combine and lower inlined. Only ``mta.monoids`` imports this module, and only once a user
monoid is used: it needs numba.

Both functions take the addresses of four columns, of which they read as many as lift has arguments,
and of the nulls (`valid` 0; read where `nulls` is not 0), all addressed by row number. A suffix is
stored as one 8-byte cell per number of the partial, in the place of its row. They give -1 where
lift, combine or lower raised.

`compile_cells` makes functions for ``mta.fifo``, whose algorithms call them through their
addresses for partials of as many cells. These can't tell that they raised, so that a monoid is
refused there unless numba proves that none of its functions does.
"""

from __future__ import annotations

import math
import re
import types as python_types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import types

from mta.monoids import CellProgram, Program

KINDS = {
    "float": types.float64,
    "int": types.int64,
    "uint": types.uint64,
    "bool": types.boolean,
}
CELLS = {"float": "float64", "int": "int64", "uint": "uint64", "bool": "int64"}

# suffix[row], for every row of [lo, split), is the aggregate of the rows [row, split), of which the
# last counts; where `follows` is not 0, of these and then suffix[split], which is there already.
# Made from right to left.
BUILD = """
def build(c0, c1, c2, c3, valid, nulls, lo, split, follows, suffix):
    {views_of_columns}
    {views_of_suffix}
    is_valid = carray(valid, 1, uint8)
    row = split
    cell = uint64(row) * width
    if follows != 0:
        part = {get_suffix}
    else:
        row = split - 1
        {lift_row}
        part = lifted
        cell = uint64(row) * width
        {put_suffix}
    while row > lo:
        row -= 1
        if nulls == 0 or is_valid[uint64(row)] != 0:
            {lift_row}
            joined = combine(lifted, part)
            part = {joined}
        cell = uint64(row) * width
        {put_suffix}
    return 0

def build_safely(c0, c1, c2, c3, valid, nulls, lo, split, follows, suffix):
    try:
        return build(c0, c1, c2, c3, valid, nulls, lo, split, follows, suffix)
    except Exception:
        return -1
"""

# Answers the windows from `start` on whose first row is before `split`: the suffix of that row,
# joined with the running aggregate `part` of the rows [split, last), if one of them counts. `last`,
# whether one counts, and `part` are kept in `state`. Gives the first window that is not answered.
SLIDE = """
def slide(c0, c1, c2, c3, valid, nulls, lo_, hi_, counts_, counted, start, stop, split, need,
          suffix, state, out_):
    {views_of_columns}
    {views_of_suffix}
    {views_of_state}
    is_valid = carray(valid, 1, uint8)
    lo = carray(lo_, 1, int64)
    hi = carray(hi_, 1, int64)
    counts = carray(counts_, 1, int64)
    out = carray(out_, 1, {answer})
    last = state_int64[uint64(0)]
    some = state_int64[uint64(1)] != 0
    cell = uint64(2)
    part = {get_state}
    window = start
    while window < stop:
        front = lo[uint64(window)]
        if front >= split:
            break
        back = hi[uint64(window)]
        while last < back:
            if nulls == 0 or is_valid[uint64(last)] != 0:
                row = last
                {lift_row}
                if some:
                    joined = combine(part, lifted)
                    part = {joined}
                else:
                    part = lifted
                    some = True
            last += 1
        count = back - front
        if counted != 0:
            count = counts[uint64(window)]
        if count < need:
            out[uint64(window)] = nothing
        else:
            cell = uint64(front) * width
            whole = {get_suffix}
            if some:
                joined = combine(whole, part)
                whole = {joined}
            out[uint64(window)] = lower(whole)
        window += 1
    state_int64[uint64(0)] = last
    state_int64[uint64(1)] = 1 if some else 0
    cell = uint64(2)
    {put_state}
    return window

def slide_safely(c0, c1, c2, c3, valid, nulls, lo_, hi_, counts_, counted, start, stop, split,
                 need, suffix, state, out_):
    try:
        return slide(c0, c1, c2, c3, valid, nulls, lo_, hi_, counts_, counted, start, stop, split,
                     need, suffix, state, out_)
    except Exception:
        return -1
"""

# Partials lie so many cells apart (`..._step`), and their first cell says whether there is one. n
# of them are made at a time, in their order, each written when what it is made of has been read.
CELL_FUNCTIONS = """
def lift_cells(values, out, out_step, n):
    {views_of_values}
    {views_of_out}
    at = uint64(0)
    to = uint64(0)
    for i in range(n):
        one = lift({values})
        part = {lifted}
        out_int64[to] = 1
        cell = to + uint64(1)
        {put_out}
        at += columns
        to += uint64(out_step)

def combine_cells(out, a, b):
    {views_of_a}
    {views_of_b}
    {views_of_out}
    left = right = to = uint64(0)
    {join}

def combine_runs(out, out_step, a, a_step, b, b_step, n):
    {views_of_a}
    {views_of_b}
    {views_of_out}
    left = right = to = uint64(0)
    for i in range(n):
        {join}
        left += uint64(a_step)
        right += uint64(b_step)
        to += uint64(out_step)

def lower_cells(parts, parts_step, n, answers):
    {views_of_parts}
    out = carray(answers, 1, {answer})
    at = uint64(0)
    for i in range(n):
        cell = at + uint64(1)
        if parts_int64[at] != 0:
            out[uint64(i)] = lower({get_parts})
        else:
            out[uint64(i)] = nothing
        at += uint64(parts_step)
"""

JOIN = """
if a_int64[left] == 0:
    {copy_b}
elif b_int64[right] == 0:
    {copy_a}
else:
    cell = left + uint64(1)
    older = {get_a}
    cell = right + uint64(1)
    newer = {get_b}
    joined = combine(older, newer)
    part = {joined}
    out_int64[to] = 1
    cell = to + uint64(1)
    {put_out}
"""

MOST_CELLS = 7

_I, _P = types.int64, types.voidptr
BUILD_TYPE = _I(_P, _P, _P, _P, _P, _I, _I, _I, _I, _P)
CELL_TYPES = {
    "lift_cells": types.void(_P, _P, _I, _I),
    "combine_cells": types.void(_P, _P, _P),
    "combine_runs": types.void(_P, _I, _P, _I, _P, _I, _I),
    "lower_cells": types.void(_P, _I, _I, _P),
}
SLIDE_TYPE = _I(_P, _P, _P, _P, _P, _I, _P, _P, _P, _I, _I, _I, _I, _I, _P, _P, _P)


class NotCompilableError(Exception):
    """Why a monoid runs through Python."""


@dataclass(frozen=True)
class Partial:
    """The type of a partial: the kinds of its numbers, and what holds them.

    holder : None for a bare number, tuple, or a class of named tuples
    """

    kinds: tuple[str, ...]
    holder: type | None

    @property
    def type(self) -> Any:
        """The same as numba's type."""
        numbers = [KINDS[kind] for kind in self.kinds]
        if self.holder is None:
            return numbers[0]
        named = None if self.holder is tuple else self.holder
        return types.BaseTuple.from_types(numbers, named)

    def __str__(self) -> str:
        listed = ", ".join(self.kinds)
        return listed if self.holder is None else f"{self.holder.__name__}({listed})"

    def made_of(self, parts: Sequence[str]) -> str:
        """The expression that makes one of these expressions."""
        if self.holder is None:
            return parts[0]
        return f"{'' if self.holder is tuple else 'holder'}({', '.join(parts)},)"

    def number(self, name: str, place: int) -> str:
        """The expression for one of its numbers."""
        return name if self.holder is None else f"{name}[{place}]"


def compile_monoid(
    lift: Callable[..., Any],
    combine: Callable[..., Any],
    lower: Callable[..., Any] | None,
    sources: tuple[str, ...],
) -> Program:
    """The compiled functions over columns of these types ("float", "int", "uint", "bool").

    Raises
    ------
    NotCompilableError
        numba can't compile one of the functions, or the partial or the answer is of another type
        than it takes.
    """
    with _quietly():
        functions = _functions(lift, combine, lower, len(sources))
        partial, gives = _infer(functions, sources)
        if "uint" in sources:
            _check_signs(functions, sources, partial, gives)
        build, slide = _compile(functions, sources, partial, gives)
    return Program(gives, cells=len(partial.kinds), build=build, slide=slide)


def compile_cells(
    lift: Callable[..., Any],
    combine: Callable[..., Any],
    lower: Callable[..., Any] | None,
    sources: tuple[str, ...],
) -> CellProgram:
    """The same for single partials of at most `MOST_CELLS` numbers ("float", "int", "bool").

    Raises
    ------
    NotCompilableError
        As `compile_monoid`; or one of the functions may raise, or the partial has more numbers.
    """
    with _quietly():
        functions = _functions(lift, combine, lower, len(sources))
        partial, gives = _infer(functions, sources)
        if len(partial.kinds) > MOST_CELLS:
            raise NotCompilableError(f"a partial has more than {MOST_CELLS} numbers")
        if "uint" in (gives, *partial.kinds):
            raise NotCompilableError("unsigned integers")
        made = _compile_cells(functions, sources, partial, gives)
    return CellProgram(gives, "", partial.kinds, partial.holder, *made)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without numba's warnings of what it will do otherwise one day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _functions(
    lift: Callable[..., Any],
    combine: Callable[..., Any],
    lower: Callable[..., Any] | None,
    columns: int,
) -> tuple[Any, ...]:
    return (
        _jitted("lift", lift, columns),
        _jitted("combine", combine, 2),
        _jitted("lower", lower or _itself, 1),
    )


def _itself(part: Any) -> Any:
    return part


def _jitted(role: str, function: Any, arguments: int) -> Any:
    """The function as numba calls it. Another calls built-ins (max, float)."""
    if hasattr(function, "py_func"):
        return function
    if not isinstance(function, python_types.FunctionType):
        names = ", ".join(f"x{k}" for k in range(arguments))
        scope = {"function": function}
        exec(f"def call({names}):\n    return function({names})", scope)
        function = scope["call"]
    try:
        return _njit(function)
    except Exception as error:
        raise NotCompilableError(f"numba does not take {role}: {_gist(error)}") from error


def _njit(function: Any) -> Any:
    """Compiled to be called from compiled code only, in half of the time."""
    return numba.njit(function, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _infer(functions: tuple[Any, ...], sources: tuple[str, ...]) -> tuple[Partial, str]:
    """The least type that holds what lift gives and what combine makes of it, and the answer's."""
    lift, combine, lower = functions
    partial = _partial("lift", _gives("lift", lift, *(KINDS[source] for source in sources)))
    while True:
        joined = _partial("combine", _gives("combine", combine, partial.type, partial.type))
        wider = _common(partial, joined)
        if wider == partial:
            break
        partial = wider
    answer = _gives("lower", lower, partial.type)
    kind = _kind_of(answer)
    if kind is None:
        raise NotCompilableError(f"the answer is {answer}, not a number")
    return partial, kind


def _gives(role: str, function: Any, *arguments: Any) -> Any:
    """The type that a function returns. Whatever goes wrong in numba: it can't be compiled."""
    try:
        function.compile(arguments)
        return types.unliteral(function.overloads[arguments].signature.return_type)
    except Exception as error:
        raise NotCompilableError(f"numba does not compile {role}: {_gist(error)}") from error


def _gist(error: Exception) -> str:
    """The line of a message of numba that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("Failed in nopython")]
    return told[0] if told else type(error).__name__


def _kind_of(numba_type: Any) -> str | None:
    return next((kind for kind, known in KINDS.items() if numba_type == known), None)


def _partial(role: str, numba_type: Any) -> Partial:
    """What a function returns, as a partial."""
    holder: type | None = None
    numbers = [numba_type]
    if isinstance(numba_type, types.BaseTuple):
        holder = getattr(numba_type, "instance_class", tuple)
        numbers = [types.unliteral(number) for number in numba_type.types]
    kinds = [kind for kind in map(_kind_of, numbers) if kind is not None]
    if not numbers or len(kinds) < len(numbers):
        raise NotCompilableError(f"{role} gives {numba_type}, not a number or a tuple of numbers")
    return Partial(tuple(kinds), holder)


def _common(lifted: Partial, joined: Partial) -> Partial:
    if lifted.holder is not joined.holder or len(lifted.kinds) != len(joined.kinds):
        raise NotCompilableError(f"lift gives {lifted}, but combine gives {joined}")
    kinds = []
    for pair in zip(lifted.kinds, joined.kinds, strict=True):
        if {"uint"} < set(pair):
            raise NotCompilableError(f"a number is {pair[0]} in lift, but {pair[1]} in combine")
        kinds.append(max(pair, key=["bool", "int", "uint", "float"].index))
    return Partial(tuple(kinds), lifted.holder)


def _check_signs(
    functions: tuple[Any, ...], sources: tuple[str, ...], partial: Partial, gives: str
) -> None:
    """Where numba makes doubles of unsigned integers that meet signed ones, Python is exact."""
    signed = tuple("int" if source == "uint" else source for source in sources)
    as_signed = _infer(functions, signed)
    kinds = tuple("int" if kind == "uint" else kind for kind in partial.kinds)
    if as_signed != (Partial(kinds, partial.holder), "int" if gives == "uint" else gives):
        raise NotCompilableError("unsigned and signed integers are mixed")


def _compile(
    functions: tuple[Any, ...], sources: tuple[str, ...], partial: Partial, gives: str
) -> tuple[Any, Any]:
    """Addresses by way of ``.address``; the objects have to be kept while they are used."""
    scope = _scope(functions, partial, gives)
    pieces = {**_pieces(sources, partial), "answer": [CELLS[gives]]}
    exec(_filled(BUILD, pieces) + _filled(SLIDE, pieces), scope)
    for name in ("build", "slide"):
        scope[name] = _njit(scope[name])
    try:
        return (
            numba.cfunc(BUILD_TYPE)(scope["build_safely"]),
            numba.cfunc(SLIDE_TYPE)(scope["slide_safely"]),
        )
    except Exception as error:
        raise NotCompilableError(f"numba does not compile the loops: {_gist(error)}") from error


def _scope(functions: tuple[Any, ...], partial: Partial, gives: str) -> dict[str, Any]:
    """What generated functions see."""
    lift, combine, lower = functions
    return {
        "carray": numba.carray, "lift": lift, "combine": combine, "lower": lower,
        "holder": partial.holder, "uint8": types.uint8,
        "float64": types.float64, "int64": types.int64, "uint64": types.uint64,
        "width": np.uint64(len(partial.kinds)), "nothing": math.nan if gives == "float" else 0,
    }  # fmt: skip


def _compile_cells(
    functions: tuple[Any, ...], sources: tuple[str, ...], partial: Partial, gives: str
) -> list[Any]:
    """The functions of `CELL_TYPES`, as objects that have ``.address``."""
    scope = _scope(functions, partial, gives) | {"columns": np.uint64(len(sources))}
    exec(_filled(CELL_FUNCTIONS, _cell_pieces(sources, partial, gives)), scope)
    made = []
    for name, its_type in CELL_TYPES.items():
        try:
            function = numba.cfunc(its_type, error_model="numpy")(scope[name])
        except Exception as error:
            raise NotCompilableError(f"numba does not compile {name}: {_gist(error)}") from error
        if not _never_raises(function):
            raise NotCompilableError(f"{name.split('_')[0]} may raise")
        made.append(function)
    return made


def _never_raises(function: Any) -> bool:
    """Whether the function's machine code gives the status 0, whatever comes in."""
    code = function.inspect_llvm()
    found = re.findall(r'^define [^@\n]*\bi32 @"?([^"(\n]+)"?\(.*?\{\n(.*?)^\}', code, re.M | re.S)
    bodies = [
        body for name, body in found if f"@cfunc.{name}(" in code or f'@"cfunc.{name}"(' in code
    ]
    returns = re.findall(r"^\s*ret i32 (\S+)", bodies[0], re.M) if len(bodies) == 1 else []
    return set(returns) == {"0"}


def _filled(template: str, pieces: dict[str, list[str]]) -> str:
    """A piece on a line of its own may be several lines, all with that line's indent."""
    lines = []
    for line in template.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        one_line = {name: f"\n{indent}".join(piece) for name, piece in pieces.items()}
        lines.append(line.format(**one_line))
    return "\n".join(lines)


def _pieces(sources: tuple[str, ...], partial: Partial) -> dict[str, list[str]]:
    """What differs from one type of partial to another. Partials are stored in 8-byte cells, from
    the one numbered `cell` on, that are looked at as doubles or integers."""
    row, columns = [], []
    for k, source in enumerate(sources):
        row.append(_as(source, f"x{k}[uint64(row)]"))
        columns.append(f"x{k} = carray(c{k}, 1, {CELLS[source]})")
    pieces = {
        "views_of_columns": columns,
        "lift_row": [
            f"one = lift({', '.join(row)})",
            f"lifted = {partial.made_of(_numbers(partial, 'one'))}",
        ],
        "joined": [partial.made_of(_numbers(partial, "joined"))],
    }
    for array in ("suffix", "state"):
        pieces |= _cells_of(array, partial)
    return pieces


def _cells_of(array: str, partial: Partial) -> dict[str, list[str]]:
    """To get a partial from an array of cells and to put it there."""
    cells = [f"{array}_{CELLS[kind]}[cell + uint64({j})]" for j, kind in enumerate(partial.kinds)]
    return {
        f"views_of_{array}": _views(array, partial.kinds),
        f"get_{array}": [partial.made_of(list(map(_as, partial.kinds, cells)))],
        f"put_{array}": [
            f"{cell} = {CELLS[kind]}({partial.number('part', j)})"
            for j, (cell, kind) in enumerate(zip(cells, partial.kinds, strict=True))
        ],
    }


def _views(array: str, kinds: Sequence[str]) -> list[str]:
    views = sorted({"int64", *(CELLS[kind] for kind in kinds)})
    return [f"{array}_{view} = carray({array}, 1, {view})" for view in views]


def _cell_pieces(sources: tuple[str, ...], partial: Partial, gives: str) -> dict[str, list[str]]:
    """The same for single partials."""
    values = [
        _as(source, f"values_{CELLS[source]}[at + uint64({k})]") for k, source in enumerate(sources)
    ]
    pieces = {
        "views_of_values": _views("values", sources),
        "values": [", ".join(values)],
        "lifted": [partial.made_of(_numbers(partial, "one"))],
        "joined": [partial.made_of(_numbers(partial, "joined"))],
        "answer": [CELLS[gives]],
    }
    for array in ("a", "b", "out", "parts"):
        pieces |= _cells_of(array, partial)
    for array, start in (("a", "left"), ("b", "right")):
        pieces[f"copy_{array}"] = [
            f"out_int64[to + uint64({k})] = {array}_int64[{start} + uint64({k})]"
            for k in range(1 + len(partial.kinds))
        ]
    pieces["join"] = _filled(JOIN, pieces).splitlines()[1:]
    return pieces


def _numbers(partial: Partial, name: str) -> list[str]:
    return [_as(kind, partial.number(name, j)) for j, kind in enumerate(partial.kinds)]


def _as(kind: str, number: str) -> str:
    return f"bool({number})" if kind == "bool" else f"{CELLS[kind]}({number})"
