"""Several servers of a site: ranges of sessions, producers without a database, and Spark's."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lrq_servers",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("endpoints", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("server", name="pk_lrq_servers"),
    )
    op.create_table(
        "lrq_ranges",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_lrq_ranges"),
    )
    op.create_table(
        "lrq_generations",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("ranges", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_generations"),
    )
    # Sinks know the generations of the lease that was the only one until now.
    op.execute(
        "INSERT INTO lrq_generations (one, generation, ranges)"
        " SELECT 1, coalesce(max(generation), 0), 0 FROM lrq_leases WHERE name = 'server'"
    )
    op.create_table(
        "lrq_producers",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("first_sequence", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("client", "producer", name="pk_lrq_producers"),
    )
    op.create_table(
        "lrq_log_staging",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", name="pk_lrq_log_staging"),
    )
    op.create_index("ix_lrq_log_staging_producer", "lrq_log_staging", ["client", "producer"])
    op.create_table(
        "lrq_log_staged_blocks",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("ord", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("row_count", sa.Integer(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", "ord", name="pk_lrq_log_staged_blocks"),
    )
    if op.get_context().dialect.name != "sqlite":
        op.execute("ALTER TABLE lrq_log_staged_blocks ALTER COLUMN block SET STORAGE EXTERNAL")


def downgrade() -> None:
    names = (
        "lrq_log_staged_blocks",
        "lrq_log_staging",
        "lrq_producers",
        "lrq_generations",
        "lrq_ranges",
        "lrq_servers",
    )
    for name in names:
        op.drop_table(name)
