"""The rows of one portion of a receive queue, as Arrow batches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

import queues
from lr_client.spark.arrow import record_batch
from lr_client.spark.receive.intake import Portion
from lr_client.spark.receive.offsets import SNAPSHOT_START
from lr_client.spark.receive.rows import pages
from queues.receive.consumer_marks import IN_SNAPSHOT

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: In a snapshot, `sequence` numbers the entries from 1, and `transaction`, `commit_time` and `branch` are NULL.
SCHEMA: Final = StructType(
    [
        StructField("payload", BinaryType()),
        StructField("item_key", StringType()),
        StructField("sequence", LongType()),
        StructField("transaction", LongType()),
        StructField("commit_time", TimestampType()),
        StructField("kind", StringType()),
        StructField("sync_id", StringType()),
        StructField("branch", StringType()),
        StructField("source", StringType()),
        StructField("client", StringType()),
    ]
)
#: The same columns and the partition key, which is NULL in a snapshot.
KEYED_SCHEMA: Final = StructType([*SCHEMA.fields, StructField("partition_key", StringType())])


def schema_of(keyed: bool) -> StructType:
    """Return `KEYED_SCHEMA` or `SCHEMA`."""
    return KEYED_SCHEMA if keyed else SCHEMA


def read_portion(url: str, portion: Portion | None, *, keyed: bool = False) -> "Iterator[pyarrow.RecordBatch]":
    """Read *portion* in Arrow batches of `schema_of(keyed)`; Spark passes None when there are no portions.

    Raises like `pages`.
    """
    schema = schema_of(keyed)
    if portion is None:
        return
    queue, span = portion.queue, portion.span
    common: dict[str, object] = {
        "kind": span.kind,
        "sync_id": span.sync_id or None,
        "branch": span.branch or None,
        "source": queue.source,
        "client": queue.client,
    }
    for marker in portion.markers:
        no_entry = dict.fromkeys(("payload", "item_key", "transaction", "commit_time", "branch"))
        no_entry |= {"partition_key": None} if keyed else {}
        place = {"kind": marker, "sequence": 0 if marker == SNAPSHOT_START else span.after}
        yield record_batch(schema, 1, {**common, **no_entry, **place})
    engine = queues.create_engine(url)
    try:
        for page in pages(engine, queue, span, portion.entries):
            seqs, transactions, times, keys, payloads, _, partition_keys = map(list, zip(*page, strict=True))
            columns: dict[str, object] = {"payload": payloads, "item_key": keys, "sequence": seqs}
            if keyed:
                columns["partition_key"] = partition_keys
            if span.kind == IN_SNAPSHOT:
                columns |= {"transaction": None, "commit_time": None}
            else:
                columns |= {"transaction": transactions, "commit_time": times}
            yield record_batch(schema, len(page), {**common, **columns})
    finally:
        engine.dispose()
