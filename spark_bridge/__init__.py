"""The specs of `mta` on Spark DataFrames.

``spark_bridge.apply(spec, sdf)`` takes a spec of `mta` and a Spark DataFrame, ``explain(spec,
sdf)`` says how it would go about it; ``python -m spark_bridge --help`` does the same for files.
"""

from spark_bridge.batch import apply
from spark_bridge.explained import explain

__all__ = ["apply", "explain"]
