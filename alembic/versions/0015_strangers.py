"""The destinations that lost entries before they had a session."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_strangers",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", name="pk_lrq_strangers"),
    )
    # An earlier version trims on and leaves this number behind, so that the record counts as incomplete.
    op.add_column("lrq_log_head", sa.Column("strangers_seq", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("lrq_log_head", "strangers_seq")
    op.drop_table("lrq_strangers")
