"""Entries carry optional headers, and sinks keep the headers and the partition key of an entry."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

SLOTS = range(8)
RECEIVED = ("lrq_receive_entries", "lrq_parked_entries")


def _sent() -> tuple[str, ...]:
    if op.get_context().dialect.name == "sqlite":
        return tuple(f"lrq_log_entries_{slot}" for slot in SLOTS)
    return ("lrq_log_entries",)


def upgrade() -> None:
    for table in (*_sent(), *RECEIVED):
        op.add_column(table, sa.Column("headers", sa.Text()))
    for table in RECEIVED:
        op.add_column(table, sa.Column("partition_key", sa.Text()))


def downgrade() -> None:
    for table in RECEIVED:
        op.drop_column(table, "partition_key")
    for table in (*_sent(), *RECEIVED):
        op.drop_column(table, "headers")
