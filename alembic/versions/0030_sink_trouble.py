"""The reason why a server of a sink can store no entry, for the status of its site."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A constant default rewrites no row, and earlier versions need not know the column.
    op.add_column("lrq_servers", sa.Column("sink_trouble", sa.Text(), server_default=sa.text("''"), nullable=False))


def downgrade() -> None:
    op.drop_column("lrq_servers", "sink_trouble")
