"""Shards of a subscriber: maps of slots, and a position of each shard."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_shard_maps",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shards", sa.Integer(), nullable=False),
        sa.Column("partitioner", sa.Text(), nullable=False),
        sa.Column("owners", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", "version", name="pk_lrq_shard_maps"),
    )
    op.create_table(
        "lrq_shard_changes",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("after_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "version", name="pk_lrq_shard_changes"),
    )
    op.create_table(
        "lrq_shard_marks",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("applied_total", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "shard", name="pk_lrq_shard_marks"),
    )
    op.create_table(
        "lrq_shard_failures",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "shard", name="pk_lrq_shard_failures"),
    )
    op.create_table(
        "lrq_shard_members",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", "member", name="pk_lrq_shard_members"),
    )
    # A sink of a version before would roll back behind the positions of shards.
    op.execute("UPDATE lrq_site SET oldest_schema = '0018'")


def downgrade() -> None:
    # Subscribers of the version before go on at the lowest position; see docs/shards.md.
    op.execute("UPDATE lrq_consumers SET generation = 0 WHERE generation >= 4611686018427387904")
    for name in ("lrq_shard_members", "lrq_shard_failures", "lrq_shard_marks", "lrq_shard_changes", "lrq_shard_maps"):
        op.drop_table(name)
    op.execute("UPDATE lrq_site SET oldest_schema = '0017'")
