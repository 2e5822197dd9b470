"""Columns, options and rows that Spark cannot write into the log are refused with one sentence."""

from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from lr_client.spark.log.write_options import LogWriteOptions, check_columns, require_append
from lr_client.spark.log.written_rows import new_entries
from queues.errors import (
    DestinationsError,
    InvalidHeadersError,
    InvalidKeyError,
    InvalidNameError,
    PayloadTooLargeError,
    UsageError,
)
from queues.send_log.outbox import NewEntry

URL = "sqlite:////srv/paris.db"
TEXTS, HEADERS = ArrayType(StringType()), MapType(StringType(), StringType())


def parsed(**given: str) -> LogWriteOptions:
    return LogWriteOptions.parse({"url": URL, "client": "policy", **given})


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"client": "no client"}, "not a valid client name"),
        ({"url": "nothing"}, "the option `url` is no database URL"),
        ({"url": "sqlite://"}, "use a SQLite database in a file"),
        ({"destinations": ""}, "name at least one destination"),
        ({"destinations": "tokyo,no site"}, "'no site' is not a valid site id"),
        ({"producer": ""}, "the option `producer` must be a string of 1 to 512 characters"),
        ({"sequence": "-1"}, "the option `sequence` is '-1': give a whole number from 0"),
        ({"sequence": str(2**62)}, "give a whole number from 0"),
        ({"rows_per_transaction": "0"}, "give a whole number above zero"),
        ({"max_payload_bytes": "many"}, "give a whole number above zero"),
        ({"rowsPerTransaction": "5"}, "there is no option `rowsPerTransaction`: write `rows_per_transaction`"),
        ({"producr": "job"}, "there is no option `producr`: write `producer`"),
    ],
)
def test_an_invalid_option_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parsed(**given)


@pytest.mark.parametrize("missing", ["url", "client"])
def test_a_missing_option_is_named(missing: str) -> None:
    given = {"url": URL, "client": "policy"}
    del given[missing]
    with pytest.raises(UsageError, match=rf"format\('lrq_log'\) needs the option `{missing}`"):
        LogWriteOptions.parse(given)


def test_the_options_of_a_batch_are_not_those_of_a_stream() -> None:
    for given in ({"producer": "p"}, {"sequence": "1"}):
        with pytest.raises(UsageError, match="give both options, `producer` and `sequence`"):
            parsed(**given).require_batch()
        with pytest.raises(UsageError, match="remove the options `producer` and `sequence`"):
            parsed(**given).require_stream()
    several = parsed(rows_per_transaction="9")
    several.require_stream()
    with pytest.raises(UsageError, match="give `producer` and `sequence` with `rows_per_transaction`"):
        several.require_batch()
    parsed(rows_per_transaction="9", producer="p", sequence="0").require_batch()
    parsed().require_batch()


def test_the_log_is_never_overwritten() -> None:
    require_append(overwrite=False)
    with pytest.raises(UsageError, match="only adds entries: use the mode `append`"):
        require_append(overwrite=True)


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"text": StringType()}, r"no column `payload` among \['text'\]: add one of type binary"),
        ({"payload": StringType()}, "`payload` is of type string: make it binary"),
        ({"payload": BinaryType(), "destinations": LongType()}, "make it array<string> or string"),
        ({"payload": BinaryType(), "destinations": ArrayType(IntegerType())}, "is of type array<int>"),
        ({"payload": BinaryType(), "item_key": LongType()}, "`item_key` is of type bigint: make it string"),
        ({"payload": BinaryType(), "partition_key": LongType()}, "`partition_key` is of type bigint"),
        ({"payload": BinaryType(), "headers": StringType()}, "make it map<string,string>"),
        ({"payload": BinaryType(), "tick": LongType()}, "the log has no column `tick`: select only columns among"),
        ({"payload": BinaryType()}, "name the destinations once"),
    ],
)
def test_wrong_columns_are_refused(types: dict[str, DataType], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_columns(columns(**types), parsed())


def test_a_column_that_stands_twice_is_refused() -> None:
    twice = StructType([StructField("payload", BinaryType()), StructField("payload", BinaryType())])
    with pytest.raises(UsageError, match="two columns `payload`: drop or rename one of them"):
        check_columns(twice, parsed(destinations="tokyo"))


def test_destinations_are_a_column_or_an_option_but_not_both() -> None:
    for kind in (TEXTS, StringType(), ArrayType(StringType(), containsNull=False)):
        check_columns(columns(payload=BinaryType(), destinations=kind), parsed())
        with pytest.raises(UsageError, match="name the destinations once"):
            check_columns(columns(payload=BinaryType(), destinations=kind), parsed(destinations="tokyo"))
    check_columns(columns(payload=BinaryType(), headers=HEADERS), parsed(destinations="tokyo"))


def entries(*rows: dict[str, Any], **given: str) -> list[NewEntry]:
    types = {
        "payload": pyarrow.binary(),
        "destinations": pyarrow.list_(pyarrow.string()),
        "item_key": pyarrow.string(),
        "headers": pyarrow.map_(pyarrow.string(), pyarrow.string()),
    }
    names = [name for name in types if any(name in row for row in rows)]
    schema = pyarrow.schema([(name, types[name]) for name in names])
    batch = pyarrow.RecordBatch.from_pylist(list(rows), schema=schema)
    return list(new_entries([batch], parsed(**given)))


def test_rows_become_entries_in_their_order() -> None:
    rows = [{"payload": b"%d" % number, "destinations": ["lima", "tokyo", "lima"]} for number in range(1_200)]
    found = entries(*rows, {"payload": b"x" * 5_000_000, "destinations": ["tokyo"], "item_key": "a"})
    assert [entry.payload for entry in found[:-1]] == [b"%d" % number for number in range(1_200)]
    assert {entry.destinations.text for entry in found[:-1]} == {"lima,tokyo"}
    assert (len(found[-1].payload), found[-1].item_key, found[-1].headers) == (5_000_000, "a", None)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"payload": None}, UsageError),
        ({"payload": b"1234"}, PayloadTooLargeError),
        ({"payload": b"1", "destinations": None}, DestinationsError),
        ({"payload": b"1", "destinations": []}, DestinationsError),
        ({"payload": b"1", "destinations": ["no site"]}, InvalidNameError),
        ({"payload": b"1", "destinations": ["tokyo", None]}, InvalidNameError),
        ({"payload": b"1", "item_key": ""}, InvalidKeyError),
        ({"payload": b"1", "headers": {"k": None}}, InvalidHeadersError),
    ],
)
def test_a_row_that_transmit_would_refuse_is_refused(row: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        entries({"destinations": ["tokyo"], **row}, max_payload_bytes="3")
