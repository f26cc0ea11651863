import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

def merge_runs(
    old_ts: _Ints, old_rows: _Ints, new_ts: _Ints, new_rows: _Ints
) -> tuple[_Ints, _Ints]: ...
