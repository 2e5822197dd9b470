"""Run a function over the Arrow batches of a DataFrame, in Spark's tasks."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

BatchFunction = Callable[["Iterator[pyarrow.RecordBatch]"], "Iterator[pyarrow.RecordBatch]"]


@dataclass(frozen=True, slots=True)
class _Task:
    """Calls a function in a worker of Spark, then makes the worker's later tasks cheaper."""

    function: BatchFunction

    def __call__(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        yield from self.function(batches)
        exempt_modules()


@cache
def exempt_modules() -> None:
    """Exempt all present objects of this process, once, from later garbage collections.

    A worker of Spark collects garbage after each task. With the modules of lrq and of the driver, that takes 60 ms
    of CPU.
    """
    gc.collect()
    gc.freeze()


def mapped(frame: DataFrame, function: BatchFunction, schema: StructType | str) -> DataFrame:
    """Return `frame.mapInArrow(function, schema)`, for which a classic session would need pandas."""
    task: Any = _Task(function)
    java: Any = frame
    if not hasattr(java, "_jdf"):
        # The client of Spark Connect needs pandas for itself.
        return frame.mapInArrow(task, schema)
    columns: Any = UserDefinedFunction(task, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    given = columns(*(frame[name] for name in frame.columns))
    return DataFrame(java._jdf.mapInArrow(given._jc, False, None), frame.sparkSession)  # noqa: SLF001 - see above
