"""The formats of snapshots refuse a misspelt option, which Spark would leave out in silence."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from lr_client.spark.log.format import LogFormat
from lr_client.spark.log.ranges import SCHEMA
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.snapshot.format import SnapshotFormat
from lr_client.spark.snapshot.table_format import TableReader
from queues.errors import UsageError

URL = "sqlite:////nowhere.db"


@pytest.mark.parametrize(("wrong", "right"), [("partition", "partitions"), ("colums", "columns"), ("table_", "table")])
def test_a_misspelt_option_of_a_table_is_refused(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"there is no option `{wrong}`: write `{right}`"):
        TableReader({"url": URL, "cut": "1", "table": "odd", wrong: "3"})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("delete", "deleteOnCommit"),
        ("delete_on", "deleteOnCommit"),
        ("maxEntries", "maxEntriesPerBatch"),
        ("lease", "leaseSeconds"),
        ("sourceSite", "source"),
    ],
)
def test_a_part_of_an_option_s_name_is_refused(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"there is no option `{wrong}`: write `{right}`"):
        ReceiveOptions.parse({"url": URL, "client": "policy", wrong: "false"})


def test_options_of_spark_itself_pass() -> None:
    spark = {"path": "x", "checkpointLocation": "y", "queryName": "z", "": ""}
    assert ReceiveOptions.parse({"url": URL, "client": "policy", **spark}).deletes


@pytest.mark.parametrize("name", ["client", "destinations"])
def test_the_reader_of_the_log_refuses_options_that_would_choose_no_entries(name: str) -> None:
    with pytest.raises(UsageError, match="filter the rows by the column of that name"):
        LogFormat({"url": URL, name: "policy"}).reader(SCHEMA)


def test_a_misspelt_option_of_a_snapshot_is_refused() -> None:
    options = {"url": URL, "sync_id": "1", "block_row": "3"}
    with pytest.raises(UsageError, match="there is no option `block_row`: write `block_rows`"):
        SnapshotFormat(options).writer(StructType([StructField("payload", BinaryType())]), overwrite=False)
