"""The counters of received and applied bytes of a receive queue, and the applied position of each session."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COUNTERS = (("lrq_receive_marks", "bytes_total"), ("lrq_consumers", "applied_bytes"))


def upgrade() -> None:
    # The defaults let servers and subscribers of the version before go on.
    for table, column in COUNTERS:
        op.add_column(table, sa.Column(column, sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_sessions", sa.Column("applied_seq", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("lrq_sessions", "applied_seq")
    for table, column in COUNTERS:
        op.drop_column(table, column)
