"""The lead of each session's generation over that of the site's lease. Generations are 64-bit numbers already."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = (("lead", sa.BigInteger), ("leaps", sa.Integer), ("leaped_us", sa.BigInteger))


def upgrade() -> None:
    # A constant default rewrites no row, and earlier versions need not know the columns.
    for name, kind in COLUMNS:
        op.add_column("lrq_sessions", sa.Column(name, kind(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.drop_column("lrq_sessions", name)
