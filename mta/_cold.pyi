from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

WHOLE: int
MISSING: int
FOREIGN: int
DAMAGED: int
OTHER: int

def first_fault(
    values: Sequence[bytes | None], numbers: _Ints, identity: int, head: int, width: int
) -> tuple[int, int]: ...
def entries_of(values: Sequence[bytes], records: _Ints) -> tuple[_Ints, _Ints]: ...
def taken(
    values: Sequence[bytes], record: _Ints, entry: _Ints, head: int, width: int
) -> tuple[_Ints, NDArray[np.uint8]]: ...
