"""Groups of replicas: their members, the member that serves, and the source's word about it at the members."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lrq_log_head", sa.Column("regrouped_seq", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "lrq_replicas",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", "member", name="pk_lrq_replicas"),
    )
    op.create_table(
        "lrq_active_members",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lrq_active_members"),
    )
    op.create_table(
        "lrq_peer_replicas",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("members", sa.Text(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lrq_peer_replicas"),
    )
    op.create_table(
        "lrq_told_members",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("told_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "client", "name", name="pk_lrq_told_members"),
    )


def downgrade() -> None:
    for table in ("lrq_told_members", "lrq_peer_replicas", "lrq_active_members", "lrq_replicas"):
        op.drop_table(table)
    op.drop_column("lrq_log_head", "regrouped_seq")
