"""The Spark types of the columns of a database table."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import types as spark
from sqlalchemy import Table
from sqlalchemy import types as sql

from queues.errors import SnapshotFailedError

Convert = Callable[[Any], object]
_WIDEST_DECIMAL = 38

# The first matching type wins, so special types come before general ones.
_KINDS: tuple[tuple[type[Any], spark.DataType, Convert | None], ...] = (
    (sql.Boolean, spark.BooleanType(), None),
    (sql.Integer, spark.LongType(), None),
    (sql.Float, spark.DoubleType(), float),
    (sql.Numeric, spark.StringType(), str),
    (sql.Uuid, spark.StringType(), str),
    (sql.JSON, spark.StringType(), json.dumps),
    (sql.String, spark.StringType(), None),
    (sql.LargeBinary, spark.BinaryType(), None),
    (sql.DateTime, spark.TimestampNTZType(), None),
    (sql.Date, spark.DateType(), None),
)


class Field(NamedTuple):
    """One column: the Spark type, and the conversion of values that are not NULL (None: no conversion)."""

    name: str
    type: spark.DataType
    convert: Convert | None


def field_of(table: Table, name: str) -> Field:
    """Return the Spark type of column *name*; raise `SnapshotFailedError` if it is missing or has no Spark type."""
    if name not in table.c:
        raise SnapshotFailedError(f"the table {table.name} has no column {name}")
    declared = table.c[name].type
    if isinstance(declared, sql.DateTime) and declared.timezone:
        return Field(name, spark.TimestampType(), None)
    if isinstance(declared, sql.Numeric) and not isinstance(declared, sql.Float):
        precision, scale = declared.precision or 0, declared.scale or 0
        if 0 < precision <= _WIDEST_DECIMAL:
            return Field(name, spark.DecimalType(precision, scale), None)
    for kind, held_as, convert in _KINDS:
        if isinstance(declared, kind):
            return Field(name, held_as, convert)
    raise SnapshotFailedError(
        f"the column {name} of {table.name} has a type that read_table does not know ({declared!r}): "
        "leave it out with columns=[...]"
    )


def struct_of(fields: list[Field]) -> spark.StructType:
    """Return the schema of *fields*; every column may be NULL."""
    return spark.StructType([spark.StructField(field.name, field.type) for field in fields])
