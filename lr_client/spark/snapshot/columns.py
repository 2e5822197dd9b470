"""The Spark types of the columns of a database table, and the exact values of the columns."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import types as spark
from sqlalchemy import ColumnClause, ColumnElement, Table, cast, type_coerce
from sqlalchemy import types as sql
from sqlalchemy.dialects import postgresql

from queues.errors import SnapshotFailedError

Convert = Callable[[Any], object]
_WIDEST_DECIMAL = 38


def _number_text(value: object) -> str:
    if not isinstance(value, int | float | Decimal | str):
        raise TypeError(f"a column of numbers holds {type(value).__name__}")
    return str(value)


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# The first matching type wins, so special types come before general ones.
_KINDS: tuple[tuple[type[Any], spark.DataType, Convert | None], ...] = (
    (sql.Boolean, spark.BooleanType(), None),
    (sql.Integer, spark.LongType(), None),
    (sql.Float, spark.DoubleType(), float),
    (sql.Numeric, spark.StringType(), _number_text),
    (sql.Uuid, spark.StringType(), str),
    (sql.JSON, spark.StringType(), _json_text),
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
        if 0 < precision <= _WIDEST_DECIMAL and 0 <= scale <= precision:
            return Field(name, spark.DecimalType(precision, scale), _decimal_of(declared.scale))
    for kind, held_as, convert in _KINDS:
        if isinstance(declared, kind):
            return Field(name, held_as, convert)
    raise SnapshotFailedError(
        f"the column {name} of {table.name} has a type that read_table does not know ({declared!r}): "
        "leave it out with columns=[...]"
    )


def selected(column: ColumnClause[Any]) -> ColumnElement[Any]:
    """Return the expression that reads *column* exactly.

    SQLAlchemy rounds the numbers of SQLite, and parsed JSON has lost digits and spaces, and NULL for `null`.
    """
    if isinstance(column.type, postgresql.JSON):
        return cast(column, sql.Text)
    if isinstance(column.type, sql.JSON | sql.Numeric) and not isinstance(column.type, sql.Float):
        return type_coerce(column, sql.NullType())
    return column


def refuse_fraction(field: Field) -> None:
    """Raise `SnapshotFailedError` if *field* has whole numbers: SQLite may store 1.5 there, and Arrow makes it 1."""
    if field.type == spark.LongType():
        raise SnapshotFailedError(
            f"the column {field.name} is declared as integer, and a row has a fraction there: correct the row, or "
            "leave the column out with columns=[...]"
        )


def _decimal_of(scale: int | None) -> Convert:
    """Return the conversion to decimal numbers; SQLite stores whole numbers and floats in a column of such numbers."""

    def convert(value: object) -> Decimal:
        if isinstance(value, Decimal):
            return value
        if isinstance(value, float) and scale is not None:
            return Decimal(f"{value:.{scale}f}")
        return Decimal(_number_text(value))

    return convert


def struct_of(fields: list[Field]) -> spark.StructType:
    """Return the schema of *fields*; every column may be NULL."""
    return spark.StructType([spark.StructField(field.name, field.type) for field in fields])
