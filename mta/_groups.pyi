import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

@disjoint_base
class Codes:
    n: int
    null: int
    def __len__(self) -> int: ...
    def of(
        self, values: NDArray[np.int64], valid: NDArray[np.uint8] | None = None
    ) -> NDArray[np.int64]: ...
    @property
    def values(self) -> NDArray[np.int64]: ...
    def renumber(self, new: NDArray[np.int32]) -> None: ...
    @property
    def nbytes(self) -> int: ...
