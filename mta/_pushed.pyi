from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import disjoint_base

from mta.plan import Feed, Plan, State

KINDS: tuple[str, ...]

@disjoint_base
class StateForest: ...

@disjoint_base
class Room: ...

@disjoint_base
class Source: ...

@disjoint_base
class Answer: ...

@disjoint_base
class KernelState:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

def has_forest(state: State) -> bool: ...
def make_column(name: str, plan: Plan) -> Any: ...
def item_checks(feeds: Sequence[Feed]) -> Callable[[Any], str | None] | None: ...
