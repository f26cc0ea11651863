"""User monoids: aggregates made of a user's own lift, combine and lower.

``lift`` makes a partial aggregate of a row, ``combine`` joins two neighbouring ones (associative;
it need not be commutative, and nothing is ever taken back out), ``lower`` makes the answer of the
partial of a window. With numba they are compiled, where the partial is a number or a flat tuple of
numbers; else they run through Python.
"""

from __future__ import annotations

import copy
import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._kernel import Counter
from mta._user import MOST_COLUMNS, CompiledUserKernel, PythonUserKernel
from mta.errors import DataError, SpecError
from mta.functions import Aggregate

Mask = NDArray[np.bool_]

# What an answer may be said to be, and what compiled code may then give.
_ANSWERS = {"float": ("float", "int", "uint"), "int": ("int", "bool"), "bool": ("bool",)}
_COMPILED = ("float", "int", "uint", "bool")


@dataclass(frozen=True)
class Program:
    """How a monoid runs over columns of given types.

    gives : type of the answers: "float", "int", "uint" or "bool" of compiled code, which writes
        8-byte items; "object" of Python
    why_python : why it is not compiled; "" where it is
    cells : of compiled code: how many numbers a partial has
    build, slide : the compiled functions
    """

    gives: str = "object"
    why_python: str = ""
    cells: int = 0
    build: Any = None
    slide: Any = None

    @property
    def compiled(self) -> bool:
        """Whether no Python runs."""
        return not self.why_python


@dataclass(frozen=True)
class CellProgram:
    """How a monoid runs in ``mta.fifo`` over values of given types.

    gives : type of the answers of compiled code: "float", "int" or "bool"
    why_python : why it is not compiled; "" where it is
    kinds, holder : the types of a partial's numbers; the class of tuples that holds them, or None
    lift, combine, combine_runs, lower : the compiled functions; they have to be kept while they
        are used
    """

    gives: str = ""
    why_python: str = ""
    kinds: tuple[str, ...] = ()
    holder: Any = None
    lift: Any = None
    combine: Any = None
    combine_runs: Any = None
    lower: Any = None

    def parts(self, cells: NDArray[np.int64], nothing: Any) -> list[Any]:
        """Partials as Python has them, of rows of cells, the first of which says whether there is
        one; `nothing` where there is none."""
        types = {"float": np.float64, "int": np.int64, "bool": np.int64}
        columns: list[Any] = []
        for k, kind in enumerate(self.kinds):
            numbers = np.ascontiguousarray(cells[:, k + 1]).view(types[kind])
            columns.append((numbers != 0 if kind == "bool" else numbers).tolist())
        made: Any = columns[0] if self.holder is None else zip(*columns, strict=True)
        if self.holder not in (None, tuple):
            made = [self.holder(*part) for part in made]
        there = cells[:, 0].tolist()
        return [part if some else nothing for some, part in zip(there, made, strict=True)]

    def cells(self, parts: list[Any], nothing: Any, width: int) -> NDArray[np.int64]:
        """The other way round, as rows of so many cells.

        Raises
        ------
        TypeError, ValueError, OverflowError
            These are no partials of this kind.
        """
        made = np.zeros((len(parts), width), np.int64)
        reals = made.view(np.float64)
        for row, part in enumerate(parts):
            if part is nothing:
                continue
            made[row, 0] = 1
            numbers = (part,) if self.holder is None else part
            for k, (kind, number) in enumerate(zip(self.kinds, numbers, strict=True)):
                (reals if kind == "float" else made)[row, k + 1] = number
        return made


@dataclass(frozen=True, eq=False, repr=False)
class UserMonoid:
    """An aggregate without its columns. Made by ``agg.monoid``; call it with the columns' names.

    Two are equal if they are made of the same functions. Functions are compiled as they are at
    their first use: a global that they read is frozen then.
    """

    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any] | None = None
    zero: Any = None
    name: str | None = None
    gives: str | None = None
    _programs: dict[tuple[str, ...], Program] = field(default_factory=dict, init=False)
    _cells: dict[tuple[str, ...], CellProgram] = field(default_factory=dict, init=False)
    _checked: list[bool] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        for role, wants, function in (
            ("lift", None, self.lift),
            ("combine", "two partials", self.combine),
            ("lower", "one partial", self.lower),
        ):
            if role == "lower" and function is None:
                continue
            if not callable(function):
                raise SpecError(f"agg.monoid: {role} must be a function, not {function!r}")
            if wants is not None:
                _check_arguments(role, function, 2 if role == "combine" else 1, wants)
        if self.zero is None:
            raise SpecError(
                "agg.monoid: zero is missing: the partial that changes no other when combined with "
                "it, like 0.0 for a sum (a function that makes one will do: zero=dict)"
            )
        if callable(self.zero):
            _check_arguments("zero", self.zero, 0, "nothing")
        if self.name is not None and not isinstance(self.name, str):
            raise SpecError(f"agg.monoid: name must be a text, not {self.name!r}")
        if self.gives is not None and self.gives not in _ANSWERS:
            raise SpecError(f"agg.monoid: gives must be one of {(*_ANSWERS,)}, not {self.gives!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # What was compiled is an address in this process.
        fields = self.lift, self.combine, self.lower, self.zero, self.name, self.gives
        return UserMonoid, fields

    def __call__(self, *columns: str, min_count: int = 0, nan: str = "propagate") -> Aggregate:
        """The aggregate over these columns, one per argument of `lift`."""
        self.check_columns(columns)
        first, *others = columns
        return Aggregate("monoid", first, tuple(others), monoid=self, min_count=min_count, nan=nan)

    def __repr__(self) -> str:
        zero = _function_name(self.zero) if callable(self.zero) else repr(self.zero)
        shown = [_function_name(self.lift), _function_name(self.combine)]
        if self.lower is not None:
            shown.append(_function_name(self.lower))
        shown.append(f"zero={zero}")
        if self.name is not None:
            shown.append(f"name={self.name!r}")
        if self.gives is not None:
            shown.append(f"gives={self.gives!r}")
        return f"agg.monoid({', '.join(shown)})"

    @property
    def _key(self) -> tuple[Any, ...]:
        zero: Any = id(self.zero)
        if isinstance(self.zero, (int, float, str, bytes)):
            zero = (type(self.zero), self.zero)
        return id(self.lift), id(self.combine), id(self.lower), zero, self.name, self.gives

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserMonoid) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def label(self) -> str:
        """What an answer is called where it is given no name."""
        return self.name or "monoid"

    def identity(self) -> Any:
        """The partial of no rows."""
        return self.zero() if callable(self.zero) else self.zero

    def check_columns(self, columns: Sequence[Any]) -> None:
        """Refuse columns that lift can't take.

        Raises
        ------
        SpecError
            They are none, too many, or not as many as lift has arguments.
        """
        if not columns:
            raise SpecError("agg.monoid: columns: the name of a column is needed")
        for column in columns:
            if not isinstance(column, str):
                raise SpecError(f"agg.monoid: columns must be names, not {column!r}")
        if len(columns) > MOST_COLUMNS:
            raise SpecError(
                f"agg.monoid: at most {MOST_COLUMNS} columns can be read, not {len(columns)}"
            )
        many = f"{len(columns)} value{'s' * (len(columns) > 1)}"
        _check_arguments("lift", self.lift, len(columns), f"{many}, one for each of {[*columns]}")

    def program(self, sources: Sequence[str]) -> Program:
        """How it runs over columns of these types ("float", "int", "uint", "bool", "text" ...).

        Compiling takes about a second and happens once per monoid and types.
        """
        key = tuple(sources)
        if key not in self._programs:
            program = _make_program(self, key)
            if program.compiled and program.gives not in _ANSWERS.get(self.gives or "", _COMPILED):
                raise SpecError(f"{self!r}: lower gives a {program.gives} over {', '.join(key)}")
            self._programs[key] = program
        return self._programs[key]

    def cell_program(self, sources: Sequence[str]) -> CellProgram:
        """How it runs over values of these types ("float", "int", "bool") in ``mta.fifo``, once."""
        key = tuple(sources)
        if key not in self._cells:
            self._cells[key] = _make_cells(self, key)
        return self._cells[key]

    def answer_type(self, sources: Sequence[str]) -> str | None:
        """ "float", "int", "uint" or "bool", where it is known before there are answers."""
        program = self.program(sources)
        return self.gives or (program.gives if program.compiled else None)

    @property
    def compiled(self) -> bool | None:
        """Whether no Python runs, over every type of columns so far. None: not used yet."""
        return all(p.compiled for p in self._programs.values()) if self._programs else None

    @property
    def why_python(self) -> str:
        """Why it is not compiled; "" where it is, or is not used yet."""
        return next((p.why_python for p in self._programs.values() if p.why_python), "")

    def check(self, row: tuple[Any, ...]) -> None:
        """Hold zero and combine to their contract with the first row that is seen. Once.

        Raises
        ------
        SpecError
            Combining with zero changes the partial of this row, or combine changes its arguments.
        """
        # To a NaN, zero often is no identity: max(-inf, NaN) is either, by how it is written.
        if self._checked or any(value != value for value in row):
            return
        try:
            problem = _broken_law(self, row)
        except Exception:
            return  # what raises here will again, where it is reported with its row
        if problem:
            raise SpecError(f"{self!r}: {problem}")
        self._checked.append(True)


def _check_arguments(role: str, function: Any, count: int, wants: str) -> None:
    """Refuse a function that can't be called with so many; built-ins often don't tell."""
    try:
        signature = inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise SpecError(
            f"agg.monoid: {role} must take {wants}, but is {_function_name(function)}{signature}"
        ) from None


def _function_name(function: Any) -> str:
    return getattr(function, "__name__", None) or repr(function)


def _make_program(monoid: UserMonoid, sources: tuple[str, ...]) -> Program:
    if "object" in sources or "text" in sources:
        return Program(why_python="a column holds neither numbers nor booleans")
    compiler, why = _find_compiler()
    if compiler is None:
        return Program(why_python=why)
    try:
        made: Program = compiler.compile_monoid(monoid.lift, monoid.combine, monoid.lower, sources)
        return made
    except compiler.NotCompilableError as error:
        return Program(why_python=str(error))


def _make_cells(monoid: UserMonoid, sources: tuple[str, ...]) -> CellProgram:
    if not sources:
        return CellProgram(why_python="values of several types")
    if not set(sources) <= set(_COMPILED):
        return CellProgram(why_python="values are neither floats, ints nor booleans")
    compiler, why = _find_compiler()
    if compiler is None:
        return CellProgram(why_python=why)
    try:
        made: CellProgram = compiler.compile_cells(
            monoid.lift, monoid.combine, monoid.lower, sources
        )
        return made
    except compiler.NotCompilableError as error:
        return CellProgram(why_python=str(error))


def _find_compiler() -> tuple[Any, str]:
    """(``mta._compiled_monoids``, or None; why it is missing)"""
    try:
        from mta import _compiled_monoids
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "numba"
        return None, "numba is not installed" if missing else f"numba can't be imported: {error}"
    return _compiled_monoids, ""


def _broken_law(monoid: UserMonoid, row: tuple[Any, ...]) -> str:
    """What is wrong with zero and combine, as one row shows; "" if nothing is."""
    lifted = monoid.lift(*row)
    pristine = copy.deepcopy(monoid.identity())
    values = ", ".join(map(repr, row))
    for order in ("zero, lift({})", "lift({}), zero"):
        zero, part = monoid.identity(), monoid.lift(*row)
        pair = (zero, part) if order.startswith("zero") else (part, zero)
        joined = monoid.combine(*pair)
        if _differ(zero, pristine) or _differ(part, lifted):
            return "combine changes its arguments; it has to make a new partial"
        if _differ(joined, lifted):
            return (
                f"zero {zero!r} is no identity: combine({order.format(values)}) is {joined!r}, "
                f"not {lifted!r}"
            )
    return ""


def _differ(a: Any, b: Any) -> bool:
    """Whether two partials are certainly not the same. Rounding counts for nothing."""
    if isinstance(a, numbers.Real) and isinstance(b, numbers.Real):
        both_nan = a != a and b != b
        return not (both_nan or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) != len(b) or any(map(_differ, a, b))
    try:
        return _tells_equality(a) and bool(a != b)
    except Exception:
        return False  # arrays, for one, don't say


def _tells_equality(value: Any) -> bool:
    """Whether its type compares by more than identity."""
    by_identity: Any = object.__eq__
    return type(value).__eq__ is not by_identity


def make_user_kernel(
    monoid: UserMonoid,
    counter: Counter,
    sources: Sequence[str],
    need: int = 1,
    compiled: bool | None = None,
) -> CompiledUserKernel | PythonUserKernel:
    """A kernel that answers a monoid; ``kernel.gives`` is the type of its answers.

    Parameters
    ----------
    sources : the types of its columns: "float", "int", "uint", "bool" (8-byte items), or, which
        only Python reads, "text" (codes of ``kernel.items``) or "object" (an object array)
    need : rows that count without which a window's answer is null, and lower is not called; from 1
    compiled : False for Python in any case; True to refuse what can't be compiled

    Raises
    ------
    SpecError
        It should be compiled and can't be.
    """
    program = Program(why_python="as asked") if compiled is False else monoid.program(sources)
    if compiled and not program.compiled:
        raise SpecError(f"{monoid!r} can't be compiled: {program.why_python}")
    kernel = CompiledUserKernel if program.compiled else PythonUserKernel
    return kernel(counter, monoid, tuple(sources), program, max(need, 1))


def answer_array(gives: str, n: int) -> NDArray[Any]:
    """Room for n answers of a kernel: 8-byte items, or objects."""
    types = {"float": np.float64, "uint": np.uint64, "object": np.object_}
    return np.empty(n, types.get(gives, np.int64))


def settled(
    gives: str, answers: NDArray[Any], valid: Mask | None = None, wanted: str | None = None
) -> tuple[NDArray[Any], Mask | None]:
    """Answers in the array type that they are of, and where they are not null.

    Those of Python become float64, int64, uint64 or bool where all of them are such. None is null.

    wanted : the type that they have to be of ("float", "int" or "bool"); None: any

    Raises
    ------
    DataError
        An answer of Python is not of the wanted type.
    """
    if gives != "object":
        kept = {"float": np.float64, "int": np.int64, "bool": np.bool_}.get(wanted or gives)
        return answers if kept is None else answers.astype(kept, copy=False), valid
    present = np.fromiter((answer is not None for answer in answers), np.bool_, len(answers))
    if valid is not None:
        present &= valid
    given = answers[present]
    typed = _typed(given) if wanted is None else _as_wanted(given, wanted)
    if typed is None:
        answers = np.where(present, answers, np.array(None))
    else:
        answers = np.full(len(answers), np.nan if typed.dtype == np.float64 else 0, typed.dtype)
        answers[present] = typed
    return answers, None if present.all() else present


_BOOLS: tuple[type, ...] = (bool, np.bool_)
_INTS = (*_BOOLS, int, np.integer)
_FLOATS = (*_INTS, float, np.floating)


def _as_wanted(answers: NDArray[Any], wanted: str) -> NDArray[Any]:
    kinds = {"float": _FLOATS, "int": _INTS, "bool": _BOOLS}[wanted]
    for answer in answers:
        fits = isinstance(answer, kinds)
        if not fits or (wanted == "int" and not -(2**63) <= int(answer) < 2**63):
            raise DataError(f"agg.monoid: gives={wanted!r}, but lower gave {answer!r}")
    return answers.astype({"float": np.float64, "int": np.int64, "bool": np.bool_}[wanted])


def _typed(answers: NDArray[Any]) -> NDArray[Any] | None:
    """The same numbers in an array of their type; None if they are no numbers or don't fit one."""
    kinds = set(map(type, answers.tolist()))
    if not kinds or all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return answers.astype(np.bool_) if kinds else np.empty(0)
    whole = (int, np.integer, np.bool_)
    if all(issubclass(kind, whole) for kind in kinds):
        least, most = int(answers.min()), int(answers.max())
        if least >= -(2**63) and most < 2**63:
            return answers.astype(np.int64)
        return answers.astype(np.uint64) if least >= 0 and most < 2**64 else None
    if not all(issubclass(kind, (float, np.floating, *whole)) for kind in kinds):
        return None
    ints = [x for x in answers.tolist() if isinstance(x, whole)]
    exact = all(abs(int(x)) <= 2**53 for x in ints)
    return answers.astype(np.float64) if exact else None
