"""The used share of each session's window, in percent."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A constant default rewrites no row, and earlier versions need not know the column.
    op.add_column("lrq_sessions", sa.Column("window_percent", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("lrq_sessions", "window_percent")
