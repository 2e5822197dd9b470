"""On PostgreSQL, several requests of producers may share a transaction: each row tells its request."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lrq_producers", sa.Column("request", sa.Integer(), nullable=False, server_default="0"))
    if op.get_context().dialect.name != "sqlite":
        # Without a default, so no row is written.
        op.add_column("lrq_log_entries", sa.Column("request", sa.Integer()))


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        op.drop_column("lrq_log_entries", "request")
    op.drop_column("lrq_producers", "request")
