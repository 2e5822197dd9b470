"""Whether an operator has released a session's claim on old entries."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A constant default rewrites no row, and earlier versions need not know the column.
    op.add_column("lrq_sessions", sa.Column("released", sa.Boolean(), server_default=sa.text("false"), nullable=False))


def downgrade() -> None:
    op.drop_column("lrq_sessions", "released")
