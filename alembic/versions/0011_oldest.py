"""The database says how old a lrq may be that uses these tables."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A migration that takes anything away from older versions raises this to its own number.
    op.add_column("lrq_site", sa.Column("oldest_schema", sa.Text(), nullable=False, server_default="0002"))


def downgrade() -> None:
    op.drop_column("lrq_site", "oldest_schema")
