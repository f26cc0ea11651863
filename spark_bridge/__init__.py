"""The specs of `mta` on Spark DataFrames.

``spark_bridge.apply(spec, sdf)`` takes a spec of `mta` and a Spark DataFrame; ``python -m
spark_bridge --help`` does the same for files.
"""

from spark_bridge.batch import apply

__all__ = ["apply"]
