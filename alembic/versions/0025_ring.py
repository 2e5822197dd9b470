"""The record of a ring's member and the requests of producers, beside the log that it keeps; only on SQLite."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.create_table(
        "lrq_ring_member",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("promised", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("step_before", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_ring_member"),
    )
    op.create_table(
        "lrq_ring_stores",
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rank", name="pk_lrq_ring_stores"),
    )
    op.create_table(
        "lrq_ring_generations",
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seal", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("generation", name="pk_lrq_ring_generations"),
    )
    op.create_table(
        "lrq_ring_productions",
        sa.Column("entry", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.BigInteger(), nullable=False),
        sa.Column("first_sequence", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("entry", name="pk_lrq_ring_productions"),
    )
    op.create_index("ix_lrq_ring_productions_producer", "lrq_ring_productions", ["client", "producer", "entry"])


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    for name in ("lrq_ring_productions", "lrq_ring_generations", "lrq_ring_stores", "lrq_ring_member"):
        op.drop_table(name)
