"""Rows as Arrow record batches."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]


def record_batch(schema: StructType, rows: int, columns: Mapping[str, object]) -> "pyarrow.RecordBatch":
    """Return a batch of *rows* rows in the columns of *schema*.

    Each of *columns* is a list of *rows* values, or one value for all rows. Times are microseconds since 1970.
    """
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = []
    for field in arrow:
        value = columns[field.name]
        if not isinstance(value, list):
            value = [value] * rows
        arrays.append(pyarrow.array(value, field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=arrow)
