"""Policies compiled by numba: a C function that the loops over arrays call through its address.

It gets the answers over the window and over its oldest rows, as 8-byte cells, and says 1 where
these go, 0 where they stay, -1 where the function raised. Only ``mta.policies`` imports this
module, and only once a function is used: it needs numba.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from mta._compiled_monoids import CELLS, NotCompilableError, _as, _gist

JUDGE = """
def judge(total_, old_):
    {views}
    return 1 if policy({total}, {old}) else 0

def judge_safely(total_, old_):
    try:
        return judge(total_, old_)
    except Exception:
        return -1
"""
JUDGE_TYPE = types.int64(types.voidptr, types.voidptr)

__all__ = ["NotCompilableError", "compile_policy"]


def compile_policy(
    function: Callable[[Any, Any], Any], answers: type | None, kinds: tuple[str, ...]
) -> Any:
    """The compiled function over answers of these types ("float", "int", "bool"); ``.address`` is
    where it is.

    Raises
    ------
    NotCompilableError
        numba can't compile it.
    """
    names = {"total": "", "old": ""}
    views = []
    for name in names:
        cells = [_as(kind, f"{name}_{CELLS[kind]}[{k}]") for k, kind in enumerate(kinds)]
        names[name] = cells[0] if answers is None else f"answers({', '.join(cells)})"
        views += [
            f"{name}_{cell} = carray({name}_, {len(kinds)}, {cell})"
            for cell in sorted({CELLS[kind] for kind in kinds})
        ]
    scope: dict[str, Any] = {
        "carray": numba.carray, "answers": answers,
        "float64": types.float64, "int64": types.int64,
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's, of what it will do otherwise one day
            compiled = hasattr(function, "py_func")
            scope["policy"] = function if compiled else numba.njit(function)
            exec(JUDGE.format(views="\n    ".join(views), **names), scope)
            scope["judge"] = numba.njit(scope["judge"])
            return numba.cfunc(JUDGE_TYPE)(scope["judge_safely"])
    except Exception as error:
        raise NotCompilableError(f"numba does not compile it: {_gist(error)}") from error
