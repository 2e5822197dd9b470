"""The Spark types of the columns of a database table, and the exact values of the columns."""

import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from pyspark.sql import types as spark
from sqlalchemy import ColumnClause, ColumnElement, Table, cast, type_coerce
from sqlalchemy import types as sql
from sqlalchemy.dialects import postgresql

from queues.errors import SnapshotFailedError

Convert = Callable[[Any], object]
_WIDEST_DECIMAL = 38
#: The largest error of sums of floats: in parts of the number, and of its last decimal place.
_NOISE: Final = 1e-15
_NOISE_OF_PLACE: Final = 1e-6


def _number_text(value: object) -> str:
    if not isinstance(value, int | float | Decimal | str):
        raise TypeError(f"a column of numbers holds {type(value).__name__}")
    return str(value)


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _time(value: object) -> date:
    return value if isinstance(value, datetime) else datetime.fromisoformat(_time_text(value))


def _day(value: object) -> date:
    return value if isinstance(value, date) else date.fromisoformat(_time_text(value))


def _time_text(value: object) -> str:
    """Return the text of a time in SQLite, which has no type for times."""
    if not isinstance(value, str):
        raise TypeError(f"a column of times holds {type(value).__name__}")
    return value


# The first matching type wins, so special types come before general ones.
_KINDS: tuple[tuple[type[Any], spark.DataType, Convert | None], ...] = (
    (sql.Integer, spark.LongType(), None),
    (sql.Float, spark.DoubleType(), float),
    (sql.Numeric, spark.StringType(), _number_text),
    (sql.Uuid, spark.StringType(), str),
    (sql.JSON, spark.StringType(), _json_text),
    (sql.String, spark.StringType(), None),
    (sql.LargeBinary, spark.BinaryType(), None),
    (sql.DateTime, spark.TimestampNTZType(), _time),
    (sql.Date, spark.DateType(), _day),
)


#: The types whose values SQLAlchemy would change, or refuse without the name of the column.
_RAW: Final = (sql.JSON, sql.Numeric, sql.Boolean, sql.DateTime, sql.Date)


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
    if isinstance(declared, sql.Boolean):
        return Field(name, spark.BooleanType(), _truth_of(name))
    if isinstance(declared, sql.DateTime) and declared.timezone:
        return Field(name, spark.TimestampType(), _time)
    if isinstance(declared, sql.Numeric) and not isinstance(declared, sql.Float):
        precision, scale = declared.precision or 0, declared.scale or 0
        if 0 < precision <= _WIDEST_DECIMAL and 0 <= scale <= precision:
            return Field(name, spark.DecimalType(precision, scale), _decimal_of(name, declared.scale))
    for kind, held_as, convert in _KINDS:
        if isinstance(declared, kind):
            return Field(name, held_as, convert)
    raise SnapshotFailedError(
        f"the column {name} of {table.name} has a type that read_table does not know ({declared!r}): "
        "leave it out with columns=[...]"
    )


def selected(column: ColumnClause[Any]) -> ColumnElement[Any]:
    """Return the expression that reads *column* exactly.

    SQLAlchemy rounds the numbers of SQLite, and the text `false` is true there. The error for a malformed time names no
    column. Parsed JSON has lost digits and spaces, and NULL for `null`.
    """
    if isinstance(column.type, postgresql.JSON):
        return cast(column, sql.Text)
    if isinstance(column.type, _RAW) and not isinstance(column.type, sql.Float):
        return type_coerce(column, sql.NullType())
    return column


def refuse_fraction(field: Field) -> None:
    """Raise `SnapshotFailedError` if *field* has whole numbers: SQLite may store 1.5 there, and Arrow makes it 1."""
    if field.type == spark.LongType():
        raise misfit(field.name, "integer, and a row has a fraction there")


def misfit(name: str, words: str) -> SnapshotFailedError:
    """Return the error for a value that the type of column *name* does not have; *words* tell both."""
    return SnapshotFailedError(
        f"the column {name} is declared as {words}: correct the row, or leave the column out with columns=[...]"
    )


def _truth_of(name: str) -> Convert:
    """Return the conversion to truth values: SQLite may store any number or text in a column of these."""

    def convert(value: object) -> bool:
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise misfit(name, "boolean, and a row has another value than 0 and 1 there")

    return convert


def _decimal_of(name: str, scale: int | None) -> Convert:
    """Return the conversion to decimal numbers; SQLite stores whole numbers and floats in a column of such numbers."""

    def convert(value: object) -> Decimal:
        if isinstance(value, Decimal):
            return value
        if isinstance(value, float) and scale is not None:
            rounded = f"{value:.{scale}f}"
            if not math.isclose(float(rounded), value, rel_tol=_NOISE, abs_tol=_NOISE_OF_PLACE * 10**-scale):
                raise misfit(name, f"a number with {scale} decimal places, and a row has more there")
            return Decimal(rounded)
        return Decimal(_number_text(value))

    return convert


def struct_of(fields: list[Field]) -> spark.StructType:
    """Return the schema of *fields*; every column may be NULL."""
    return spark.StructType([spark.StructField(field.name, field.type) for field in fields])
