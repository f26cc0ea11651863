from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mta._vector import Vector

_Ints = NDArray[np.int64]

FIELDS: tuple[str, ...]

def gather(fields: Sequence[Vector], keys: _Ints) -> _Ints: ...
def scatter(fields: Sequence[Vector], keys: _Ints, table: _Ints) -> None: ...
def advanced(
    table: _Ints,
    came: _Ints,
    offsets: _Ints,
    open_offsets: _Ints,
    shift: _Ints,
    times: _Ints,
    counts: _Ints,
    lo: _Ints,
    hi: _Ints,
) -> _Ints: ...
def edges_of(table: _Ints, times: _Ints, lag: int, closed: bool) -> _Ints: ...
def offsets_of(sizes: _Ints) -> _Ints: ...
def ranges(starts: _Ints, sizes: _Ints) -> _Ints: ...
