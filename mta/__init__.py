"""mta: exact sliding-window aggregation.

State a window once, get the same numbers in a notebook, in a Spark job and on a live stream:

>>> import numpy as np, mta
>>> from mta import agg
>>> spend = mta.rolling("24h", on="ts", by="card").agg(n=agg.count(), total=agg.sum("amount"))
>>> hours = np.array(["2026-01-01T08", "2026-01-01T20", "2026-01-02T09"], "M8[s]")
>>> payments = {"ts": hours, "card": np.array([7, 7, 7]), "amount": np.array([10.0, 20.0, 5.0])}
>>> spend(payments)["total"].tolist()
[10.0, 30.0, 25.0]
"""

from mta import aggregates as agg
from mta import errors
from mta._window import Window
from mta.periodic import Calendar, Hopping, Landmark, calendar, hopping, landmark, tumbling
from mta.policies import (
    Last,
    at_most,
    last,
    policy,
    since_longest_run,
    since_max,
    since_min,
)
from mta.short import *  # noqa: F403  (rolling_sum, rolling_sum_by, …)
from mta.short import __all__ as _short_forms
from mta.specs import Rolling, Spec, rolling
from mta.together import together

__version__ = "0.1.0"

spec_from_json = Spec.from_json

__all__ = [
    "Calendar",
    "Hopping",
    "Landmark",
    "Last",
    "Rolling",
    "Spec",
    "Window",
    "agg",
    "at_most",
    "calendar",
    "errors",
    "hopping",
    "landmark",
    "last",
    "policy",
    "rolling",
    "since_longest_run",
    "since_max",
    "since_min",
    "spec_from_json",
    "together",
    "tumbling",
]
__all__ += _short_forms
