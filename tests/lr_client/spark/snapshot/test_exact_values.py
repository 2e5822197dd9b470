"""`lrq_table` reads each row once, and each value as the database holds it."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType
from sqlalchemy import Column, Engine, MetaData, Numeric, Table

from lr_client.snapshot.cut import open_cut
from lr_client.spark.snapshot.columns import field_of
from lr_client.spark.snapshot.table_format import TableReader
from queues.errors import SnapshotFailedError
from tests.lr_client.spark.sources.taking import url_of

BEYOND_FLOATS = 9_007_199_254_740_993


def read(site: Engine, folder: Path, *statements: str, partitions: int = 1) -> list[dict[str, Any]]:
    """Run *statements*, which make the table `odd`; return its rows, as Spark's tasks read them."""
    with site.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    with open_cut(site, folder=folder) as cut:
        options = {"url": url_of(site), "cut": str(cut), "table": "odd", "partitions": str(partitions)}
        reader = TableReader(options)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_numbers_keep_all_their_digits(site: Engine, tmp_path: Path) -> None:
    (row,) = read(
        site,
        tmp_path,
        "CREATE TABLE odd (free NUMERIC, whole NUMERIC(30, 0), money DECIMAL(10, 2), small NUMERIC)",
        f"INSERT INTO odd VALUES ({BEYOND_FLOATS}, {BEYOND_FLOATS}, 12.5, 0.0000000000123)",
    )
    assert (row["free"], row["whole"], row["money"]) == (str(BEYOND_FLOATS), Decimal(BEYOND_FLOATS), Decimal("12.50"))
    assert Decimal(row["small"]) == Decimal("1.23E-11")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_fraction_in_a_column_of_whole_numbers_is_refused(site: Engine, tmp_path: Path) -> None:
    with pytest.raises(SnapshotFailedError, match="the column height is declared as integer, and a row has a fraction"):
        read(site, tmp_path, "CREATE TABLE odd (height INTEGER)", "INSERT INTO odd VALUES (1), (NULL), (1.5)")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("DECIMAL(10, 2)", "12.345", "number with 2 decimal places, and a row has more"),
        ("DECIMAL(10, 2)", "0.001", "number with 2 decimal places, and a row has more"),
        ("NUMERIC(30, 0)", "1.5", "number with 0 decimal places, and a row has more"),
        ("DECIMAL(10, 2)", "'abc'", r"decimal\(10,2\), and a row has another value"),
        ("DECIMAL(10, 2)", "123456789012.5", r"decimal\(10,2\), and a row has another value"),
        ("REAL", "'abc'", "double, and a row has another value"),
        ("INTEGER", "'abc'", "bigint, and a row has another value"),
        ("BLOB", "12", "binary, and a row has another value"),
        ("DATE", "'2024-13-45'", "date, and a row has another value"),
        ("DATE", "12", "date, and a row has another value"),
        ("TIMESTAMP", "'yesterday'", "timestamp_ntz, and a row has another value"),
        ("DATETIME", "17", "timestamp_ntz, and a row has another value"),
        *(("BOOLEAN", value, "boolean, and a row has another value") for value in ("2", "-1", "0.5", "'false'", "''")),
    ],
)
def test_a_value_beyond_the_declared_type_is_refused(
    site: Engine, tmp_path: Path, kind: str, value: str, words: str
) -> None:
    with pytest.raises(SnapshotFailedError, match=f"the column price is declared as a? ?{words}"):
        read(site, tmp_path, f"CREATE TABLE odd (price {kind})", f"INSERT INTO odd VALUES (NULL), ({value})")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0.1 + 0.2", "0.30"),
        ("0.1 + 0.2 - 0.3", "0.00"),
        ("99.9999999999986", "100.00"),
        ("-12.34", "-12.34"),
        ("1234567890123.46", "1234567890123.46"),
        ("12", "12.00"),
    ],
)
def test_the_noise_of_sums_of_floats_is_no_decimal_place(
    site: Engine, tmp_path: Path, value: str, expected: str
) -> None:
    (row,) = read(site, tmp_path, "CREATE TABLE odd (price DECIMAL(18, 2))", f"INSERT INTO odd VALUES ({value})")
    assert row["price"] == Decimal(expected)


def test_truth_values_are_read(site: Engine, tmp_path: Path) -> None:
    rows = read(site, tmp_path, "CREATE TABLE odd (big BOOLEAN)", "INSERT INTO odd VALUES (TRUE), (FALSE), (NULL)")
    assert [row["big"] for row in rows] == [True, False, None]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-02 03:04:05+02:00", "2024-01-02T01:04:05"),
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05"),
        ("2024-01-02 03:04:05.1234567", "2024-01-02T03:04:05.123456"),
    ],
)
def test_a_time_with_an_offset_is_the_same_moment_in_utc(
    site: Engine, tmp_path: Path, value: str, expected: str
) -> None:
    (row,) = read(site, tmp_path, "CREATE TABLE odd (at TIMESTAMP)", f"INSERT INTO odd VALUES ('{value}')")
    assert row["at"].isoformat() == expected


def test_times_are_read(site: Engine, tmp_path: Path) -> None:
    (row, empty) = read(
        site,
        tmp_path,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, day DATE, at TIMESTAMP)",
        "INSERT INTO odd VALUES (1, '2024-02-29', '2024-01-02 03:04:05.123456'), (2, NULL, NULL)",
    )
    assert (row["day"], row["at"]) == (date(2024, 2, 29), datetime(2024, 1, 2, 3, 4, 5, 123456))  # noqa: DTZ001
    assert (empty["day"], empty["at"]) == (None, None)


@pytest.mark.parametrize(("precision", "scale"), [(3, 5), (4, -2), (39, 0), (None, None)])
def test_decimal_numbers_beyond_those_of_spark_are_texts(precision: int | None, scale: int | None) -> None:
    table = Table("odd", MetaData(), Column("number", Numeric(precision, scale)))
    assert field_of(table, "number").type == StringType()


@pytest.mark.parametrize("kind", ["JSON", "JSONB"])
def test_json_keeps_its_digits_its_letters_and_its_null(site: Engine, tmp_path: Path, dialect: str, kind: str) -> None:
    stored = '{"a": 12345678901234567.89, "b": "ü"}'
    rows = read(
        site,
        tmp_path,
        f"CREATE TABLE odd (words {kind if dialect == 'postgresql' else 'JSON'})",
        "INSERT INTO odd VALUES ('null'), (NULL)",
        f"INSERT INTO odd VALUES ('{stored}')",
    )
    assert [row["words"] for row in rows] == ["null", None, stored]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ["INTEGER", "TEXT"])
def test_a_column_that_hides_the_row_ids_hides_no_row(site: Engine, tmp_path: Path, kind: str) -> None:
    values = ", ".join(f"({number}, {10 * number if number % 2 else 'NULL'})" for number in range(10))
    rows = read(
        site,
        tmp_path,
        f"CREATE TABLE odd (id INTEGER PRIMARY KEY, RowId {kind})",
        f"INSERT INTO odd VALUES {values}",
        partitions=3,
    )
    assert sorted(row["id"] for row in rows) == list(range(10))
