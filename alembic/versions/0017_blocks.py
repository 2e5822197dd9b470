"""Receive queues keep log entries in the blocks in which they came; a queue with entries is converted."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# A block of the conversion has at most these entries and bytes of payloads, or one larger entry.
ROWS = 500
BYTES = 1024 * 1024
# An entry counts in the queue as its bytes and this number.
ENTRY_BYTES = 64

ENTRIES = sa.table(
    "lrq_receive_entries",
    *(sa.column(name, sa.BigInteger()) for name in ("queue_id", "seq", "transaction_seq", "committed_us")),
    *(sa.column(name, sa.Text()) for name in ("item_key", "headers", "partition_key")),
    sa.column("payload", sa.LargeBinary()),
)
BLOCKS = sa.table(
    "lrq_receive_blocks",
    *(
        sa.column(name, sa.BigInteger())
        for name in ("queue_id", "end_seq", "row_count", "start_seq", "tick_seq", "size")
    ),
    sa.column("block", sa.LargeBinary()),
)


def upgrade() -> None:
    _create_blocks()
    if op.get_context().as_sql:
        _require_none("lrq_receive_entries")
    else:
        _pack()
    op.drop_table("lrq_receive_entries")
    # Sinks and subscribers of the versions before need the dropped table.
    op.execute("UPDATE lrq_site SET oldest_schema = '0017'")


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        # Another role than the owner is refused here, before it is refused a new table.
        op.execute("ALTER TABLE lrq_receive_blocks ALTER COLUMN block SET STORAGE EXTERNAL")
    _create_entries()
    if op.get_context().as_sql:
        _require_none("lrq_receive_blocks")
    else:
        _unpack()
    op.drop_table("lrq_receive_blocks")
    op.execute("UPDATE lrq_site SET oldest_schema = '0002'")


def _create_blocks() -> None:
    op.create_table(
        "lrq_receive_blocks",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("end_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("start_seq", sa.BigInteger(), nullable=False),
        sa.Column("tick_seq", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "end_seq", name="pk_lrq_receive_blocks"),
    )
    if op.get_context().dialect.name != "sqlite":
        # Blocks are compressed already.
        op.execute("ALTER TABLE lrq_receive_blocks ALTER COLUMN block SET STORAGE EXTERNAL")


def _create_entries() -> None:
    op.create_table(
        "lrq_receive_entries",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("transaction_seq", sa.BigInteger(), nullable=False),
        sa.Column("committed_us", sa.BigInteger(), nullable=False),
        sa.Column("item_key", sa.Text()),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("headers", sa.Text()),
        sa.Column("partition_key", sa.Text()),
        sa.PrimaryKeyConstraint("queue_id", "seq", name="pk_lrq_receive_entries"),
    )


def _require_none(table: str) -> None:
    """Let the printed SQL fail for a queue with entries, because SQL alone cannot convert them."""
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"CREATE TEMPORARY TABLE {table}_must_be_empty (entries INTEGER CHECK (entries = 0))")
        op.execute(f"INSERT INTO {table}_must_be_empty SELECT count(*) FROM {table}")  # noqa: S608 - our own names
        op.execute(f"DROP TABLE {table}_must_be_empty")
        return
    op.execute(
        f"DO $queues$ BEGIN LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; IF EXISTS (SELECT FROM {table}) THEN "
        "RAISE EXCEPTION 'receive queues hold entries, which this script cannot convert: apply them first, or migrate "
        "with `lrq init`'; END IF; END $queues$"
    )


def _hold(connection: sa.Connection, table: str) -> None:
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")


def _pack() -> None:
    from queues.blocks import EntryRow, encode_entries

    connection = op.get_bind()
    _hold(connection, "lrq_receive_entries")
    for queue_id in connection.execute(sa.select(ENTRIES.c.queue_id).distinct()).scalars().all():
        total = 0
        for run in _runs(connection, queue_id):
            tick_seq = min(row.transaction_seq for row in run) - 1
            block = encode_entries(
                [
                    EntryRow(
                        bytes(row.payload),
                        row.transaction_seq - tick_seq - 1,
                        row.committed_us,
                        row.item_key,
                        row.headers,
                        row.partition_key,
                    )
                    for row in run
                ]
            )
            size = block.plain_size + ENTRY_BYTES * len(run)
            total += size
            place = {"start_seq": run[0].seq - 1, "end_seq": run[-1].seq, "row_count": len(run), "tick_seq": tick_seq}
            packed = block.SerializeToString()
            connection.execute(sa.insert(BLOCKS).values(queue_id=queue_id, size=size, block=packed, **place))
        _count(connection, queue_id, total)


def _runs(connection: sa.Connection, queue_id: int) -> Iterator[list[Any]]:
    """Yield the entries of a queue in lists without gaps in their numbers."""
    after = -1
    while True:
        own = ENTRIES.c.queue_id == queue_id, ENTRIES.c.seq > after
        sizes = sa.select(ENTRIES.c.seq, sa.func.length(ENTRIES.c.payload)).where(*own).order_by(ENTRIES.c.seq)
        end, left = None, BYTES
        for seq, size in connection.execute(sizes.limit(ROWS)):
            left -= size
            if end is not None and (left < 0 or seq != end + 1):
                break
            end = seq
        if end is None:
            return
        chosen = sa.select(ENTRIES).where(*own, ENTRIES.c.seq <= end).order_by(ENTRIES.c.seq)
        yield list(connection.execute(chosen))
        after = end


def _unpack() -> None:
    from queues.blocks import decode_entries
    from queues.wire.replication_pb2 import Block

    connection = op.get_bind()
    _hold(connection, "lrq_receive_blocks")
    for queue_id in connection.execute(sa.select(BLOCKS.c.queue_id).distinct()).scalars().all():
        applied_seq = connection.execute(_APPLIED, {"queue": queue_id}).scalar() or 0
        total, after = 0, applied_seq
        own = sa.select(BLOCKS).where(BLOCKS.c.queue_id == queue_id).order_by(BLOCKS.c.end_seq).limit(1)
        while row := connection.execute(own.where(BLOCKS.c.end_seq > after)).first():
            block = Block.FromString(row.block)
            columns = decode_entries(block, block.plain_size)
            entries = [
                {
                    "queue_id": queue_id,
                    "seq": seq,
                    "transaction_seq": row.tick_seq + 1 + columns.transaction_indexes[place],
                    "committed_us": columns.committed_us[place],
                    "item_key": columns.item_keys[place],
                    "payload": columns.payloads[place],
                    "headers": columns.headers[place] if columns.headers else None,
                    "partition_key": columns.partition_keys[place] if columns.partition_keys else None,
                }
                for seq in range(max(row.end_seq - row.row_count, applied_seq) + 1, row.end_seq + 1)
                for place in [seq - row.start_seq - 1]
            ]
            connection.execute(sa.insert(ENTRIES), entries)
            total += sum(len(each["payload"]) + len((each["headers"] or "").encode()) for each in entries)
            total += ENTRY_BYTES * len(entries)
            after = row.end_seq
        _count(connection, queue_id, total)


# A subscriber that has not begun the newest snapshot has numbers of another history.
_APPLIED = sa.text(
    "SELECT CASE WHEN c.back_seq > -1 THEN c.back_seq ELSE c.seq END FROM lrq_consumers c"
    " JOIN lrq_receive_marks m ON m.queue_id = c.queue_id AND m.sync_id = c.sync_id WHERE c.queue_id = :queue"
)


def _count(connection: sa.Connection, queue_id: int, size: int) -> None:
    """Store that the unapplied entries of a queue count *size* bytes."""
    connection.execute(
        sa.text(
            "UPDATE lrq_receive_marks SET version = version + 1, bytes_total = :size + coalesce("
            "(SELECT applied_bytes FROM lrq_consumers WHERE lrq_consumers.queue_id = :queue), 0)"
            " WHERE queue_id = :queue"
        ),
        {"queue": queue_id, "size": size},
    )
