"""The orders of operators to bring applied entries again."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_replays",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("from_seq", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("undo", sa.Boolean(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("ordered_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", name="pk_lrq_replays"),
    )


def downgrade() -> None:
    op.drop_table("lrq_replays")
