"""Peers as data: the table of peers, its version, and the topology that each server follows."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_peers",
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("snapshot_endpoint", sa.Text(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("site", name="pk_lrq_peers"),
    )
    op.create_table(
        "lrq_peers_version",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_peers_version"),
    )
    op.execute("INSERT INTO lrq_peers_version (one, version, changed_us) VALUES (1, 1, 0)")
    op.add_column("lrq_servers", sa.Column("topology", sa.Text(), nullable=False, server_default=sa.text("''")))
    op.add_column("lrq_servers", sa.Column("topology_version", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lrq_servers", sa.Column("topology_trouble", sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    for column in ("topology_trouble", "topology_version", "topology"):
        op.drop_column("lrq_servers", column)
    op.drop_table("lrq_peers_version")
    op.drop_table("lrq_peers")
