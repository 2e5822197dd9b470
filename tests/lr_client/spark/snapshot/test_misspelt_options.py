"""The formats of snapshots refuse a misspelt option, which Spark would leave out in silence."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from lr_client.spark.snapshot.format import SnapshotFormat
from lr_client.spark.snapshot.table_format import TableReader
from queues.errors import UsageError

URL = "sqlite:////nowhere.db"


@pytest.mark.parametrize(("wrong", "right"), [("partition", "partitions"), ("colums", "columns"), ("table_", "table")])
def test_a_misspelt_option_of_a_table_is_refused(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"there is no option `{wrong}`: write `{right}`"):
        TableReader({"url": URL, "cut": "1", "table": "odd", wrong: "3"})


def test_a_misspelt_option_of_a_snapshot_is_refused() -> None:
    options = {"url": URL, "sync_id": "1", "block_row": "3"}
    with pytest.raises(UsageError, match="there is no option `block_row`: write `block_rows`"):
        SnapshotFormat(options).writer(StructType([StructField("payload", BinaryType())]), overwrite=False)
