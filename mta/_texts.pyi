from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def text_codes(
    parts: Sequence[tuple[int, int, int, Sequence[Any]]],
) -> tuple[NDArray[np.int64], int]: ...
