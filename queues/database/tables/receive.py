"""Receive queues, as the sink writes them."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Table, Text

from queues.database.tables.base import metadata

receive_queues = Table(
    "lrq_receive_queues",
    metadata,
    Column("queue_id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("client", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("tag", Text, nullable=False),
    Column("registered_us", BigInteger, nullable=False),
)

#: The receive state of each queue. Only the sink updates it, so a slow listener never blocks the sink. One row
#: for each queue; each update raises `version`: see `queues.receive.newest`.
receive_marks = Table(
    "lrq_receive_marks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("boundary_seq", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("staging_sync_id", Text, nullable=False),
    Column("staging_rows", BigInteger, nullable=False),
    Column("staging_bytes", BigInteger, nullable=False),
    Column("staging_checksum", BigInteger, nullable=False),
    Column("sync_id", Text, nullable=False),
    Column("sync_rows", BigInteger, nullable=False),
    Column("base_seq", BigInteger, nullable=False),
    Column("entries_total", BigInteger, nullable=False),
    Column("duplicates_total", BigInteger, nullable=False),
    Column("source_seq", BigInteger, nullable=False),
    Column("source_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    # Bytes of all log entries received; less `consumers.applied_bytes`, the bytes of those not applied yet.
    Column("bytes_total", BigInteger, nullable=False, server_default="0"),
    # The stream has ended here if this equals `seq`; -1 for no end.
    Column("ended_seq", BigInteger, nullable=False, server_default="-1"),
)

receive_headers = Table(
    "lrq_receive_headers",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),
)

#: The branches of each source, as told in the last negotiation (`queues.lineage`).
receive_branches = Table(
    "lrq_receive_branches",
    metadata,
    Column("client", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("timeline", Text, nullable=False),
    Column("inherited", Text, nullable=False),
)

#: Log entries as received: `block` is the wire's `Block` of one tick, or of a part of one. Row k of a block, from 0,
#: has the number `start_seq` + k + 1. The `row_count` rows up to `end_seq` are in the queue. `tick_seq` is the number
#: before the tick: transactions are numbered from there. The rows count `size` bytes in `bytes_total`.
receive_blocks = Table(
    "lrq_receive_blocks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("end_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("tick_seq", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("block", LargeBinary, nullable=False),
)

#: Rows of snapshots as received: `block` is the wire's `Block` of `row_count` rows, `plain_size` its size unpacked.
receive_snapshot_blocks = Table(
    "lrq_receive_snapshot_blocks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("sync_id", Text, primary_key=True),
    Column("last_row", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    Column("plain_size", BigInteger, nullable=False),
    Column("block", LargeBinary, nullable=False),
)

#: The last order for a replay of each queue: entries from `from_seq` on, or those committed since `since_us`, come
#: again. `state` and `outcome` are those of the order (`queues.receive.replays`).
replays = Table(
    "lrq_replays",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("order_id", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("since_us", BigInteger, nullable=False),
    Column("undo", Boolean, nullable=False),
    Column("person", Text, nullable=False),
    Column("ordered_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("ended_us", BigInteger, nullable=False),
)
