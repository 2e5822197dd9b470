"""Ticks that are sent without their replaced entries, and the number of replaced entries of each session."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A server of the version before inserts ticks without this column, and numbers the rows of large ones differently.
    op.add_column("lrq_ticks", sa.Column("omits_replaced", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("lrq_sessions", sa.Column("replaced_total", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("lrq_sessions", "replaced_total")
    op.drop_column("lrq_ticks", "omits_replaced")
