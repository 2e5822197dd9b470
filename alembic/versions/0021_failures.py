"""Failures of listeners with their tracebacks, and the actions of operators."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_FAILURES = ("lrq_consumer_failures", "lrq_shard_failures", "lrq_parked_entries")
_TEXTS = ("error_class", "place", "trace")


def upgrade() -> None:
    for table in _FAILURES:
        for column in _TEXTS:
            op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=sa.text("''")))
        op.add_column(table, sa.Column("first_us", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_parked_entries", sa.Column("last_us", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_parked_entries", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "lrq_actions",
        sa.Column("action_id", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("action_id", name="pk_lrq_actions"),
    )
    op.create_index("ix_lrq_actions_at_us", "lrq_actions", ["at_us"])


def downgrade() -> None:
    op.drop_table("lrq_actions")
    for column in ("attempts", "last_us"):
        op.drop_column("lrq_parked_entries", column)
    for table in _FAILURES:
        for column in ("first_us", *_TEXTS):
            op.drop_column(table, column)
