"""The subscriber of a receive queue: its marks, its failures, and the entries that it parked."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, Table, Text, text

from queues.database.tables.base import Number, metadata

#: The subscriber's marks of each receive queue. Only the subscriber updates them, in the listener's transaction. One
#: row for each queue; each update raises `version`: see `queues.receive.newest`.
consumers = Table(
    "lrq_consumers",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("phase", Text, nullable=False),
    Column("sync_id", Text, nullable=False),
    Column("row_no", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("applied_total", BigInteger, nullable=False),
    # `undoes`: the subscriber can undo applied entries. `back_seq`: it must undo back to this sequence; -1 for none.
    Column("undoes", Boolean, nullable=False),
    Column("back_seq", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("applied_bytes", BigInteger, nullable=False, server_default="0"),
    # The end of the stream that the listener was told last; -1 for none.
    Column("ended_seq", BigInteger, nullable=False, server_default="-1"),
)


def failure_columns() -> list[Column[object]]:
    """Return the columns about an error of the listener; only `error` beside them may hold a part of a payload."""
    return [
        Column("error_class", Text, nullable=False, server_default=text("''")),
        Column("place", Text, nullable=False, server_default=text("''")),
        Column("trace", Text, nullable=False, server_default=text("''")),
        # The time of the first failure in a row; 0 for an unknown one.
        Column("first_us", BigInteger, nullable=False, server_default="0"),
    ]


#: Failed deliveries; written outside the listener's transaction, which is rolled back.
consumer_failures = Table(
    "lrq_consumer_failures",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    *failure_columns(),
)

parked_entries = Table(
    "lrq_parked_entries",
    metadata,
    Column("id", Number, primary_key=True),
    Column("queue_id", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("transaction_seq", BigInteger, nullable=False),
    Column("committed_us", BigInteger, nullable=False),
    Column("item_key", Text),
    Column("payload", LargeBinary, nullable=False),
    Column("error", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("parked_us", BigInteger, nullable=False),
    Column("headers", Text),
    Column("partition_key", Text),
    # Only the first row of a source transaction has its traceback.
    *failure_columns(),
    # The time of the last failure, 0 for an unknown one, and the number of all failures.
    Column("last_us", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Index("ix_lrq_parked_entries_queue_id", "queue_id"),
)
