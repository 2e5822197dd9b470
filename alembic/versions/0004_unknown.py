"""The known sites of the last server, and counts of entries that were dropped because no peer has their destination."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_known_sites",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("peers", sa.Text(), nullable=False),
        sa.Column("clients", sa.Text(), nullable=False),
        sa.Column("known_only", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_known_sites"),
    )
    op.create_table(
        "lrq_dropped_entries",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("dropped_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", name="pk_lrq_dropped_entries"),
    )


def downgrade() -> None:
    op.drop_table("lrq_dropped_entries")
    op.drop_table("lrq_known_sites")
