from typing import Any

from typing_extensions import Self, disjoint_base

from mta._block_names import BlockNames
from mta.stores import Store

@disjoint_base
class Tiers:
    bits: int
    names: BlockNames
    reads: int
    writes: int
    def __new__(cls, store: Store, name: str, bits: int, made: dict[str, Any]) -> Self: ...
    def open(self) -> bool: ...
