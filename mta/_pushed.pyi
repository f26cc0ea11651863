from typing import Any

from typing_extensions import disjoint_base

from mta.plan import Plan, State

@disjoint_base
class StateForest: ...

@disjoint_base
class KernelState:
    def answers(self, front: int, to: int) -> dict[str, Any]: ...

def has_forest(state: State) -> bool: ...
def make_column(name: str, plan: Plan) -> Any: ...
