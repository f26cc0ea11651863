from types import TracebackType
from typing import Any, NoReturn

from typing_extensions import Self, disjoint_base

from mta._fifo import Fifo
from mta.functions import Aggregate
from mta.stores import Store

@disjoint_base
class StoredFifo(Fifo):
    store: Store
    def __init__(
        self,
        agg: Aggregate,
        store: Store | str,
        name: str = "window",
        type: str = "float",
        *,
        block: int = 65536,
    ) -> None: ...
    @property
    def inserted(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def blocks(self) -> tuple[int, int]: ...
    def query(self) -> Any: ...
    def slide(self, array: Any, keep: int) -> Any: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def to_bytes(self) -> NoReturn: ...
    @classmethod
    def from_bytes(cls, data: bytes, agg: Aggregate, **options: Any) -> NoReturn: ...
