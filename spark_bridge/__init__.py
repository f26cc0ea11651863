"""The specs of `mta` on Spark DataFrames.

>>> import spark_bridge                                                     # doctest: +SKIP
>>> spark_bridge.apply(spec, sdf).write.parquet("features")                 # doctest: +SKIP
"""

from spark_bridge.batch import apply

__all__ = ["apply"]
