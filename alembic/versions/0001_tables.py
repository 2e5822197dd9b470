"""The tables that every database has."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "lrq_site",
    "lrq_branches",
    "lrq_leases",
    "lrq_log_head",
    "lrq_tag_sets",
    "lrq_tag_set_members",
    "lrq_ticks",
    "lrq_sessions",
    "lrq_snapshots",
    "lrq_snapshot_parts",
    "lrq_snapshot_blocks",
    "lrq_snapshot_providers",
    "lrq_receive_queues",
    "lrq_receive_marks",
    "lrq_receive_headers",
    "lrq_receive_entries",
    "lrq_receive_snapshot_blocks",
    "lrq_consumers",
    "lrq_consumer_failures",
    "lrq_parked_entries",
)


def upgrade() -> None:
    _both_sides()
    _source()
    _sink()


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)


def _both_sides() -> None:
    op.create_table(
        "lrq_site",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_site"),
    )
    op.create_table(
        "lrq_branches",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("start_seq", sa.BigInteger(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_lrq_branches"),
    )
    op.create_table(
        "lrq_leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lrq_leases"),
    )


def _source() -> None:
    op.create_table(
        "lrq_log_head",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("segment", sa.BigInteger(), nullable=False),
        sa.Column("opened_us", sa.BigInteger(), nullable=False),
        sa.Column("trimmed_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_log_head"),
    )
    op.create_table(
        "lrq_tag_sets",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destinations", sa.Text(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_lrq_tag_sets"),
    )
    op.create_table(
        "lrq_tag_set_members",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("tag_set", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", "tag_set", name="pk_lrq_tag_set_members"),
    )
    op.create_index("ix_lrq_tag_set_members_tag_set", "lrq_tag_set_members", ["tag_set"])
    op.create_table(
        "lrq_ticks",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("start_seq", sa.BigInteger(), nullable=False),
        sa.Column("end_seq", sa.BigInteger(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("is_large", sa.Boolean(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", "slot", name="pk_lrq_ticks"),
        postgresql_partition_by="LIST (slot)",
    )
    op.create_index("ix_lrq_ticks_end_seq", "lrq_ticks", ["end_seq"])
    op.create_table(
        "lrq_sessions",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("acked_seq", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("lost_seq", sa.BigInteger(), nullable=False),
        sa.Column("transferred_rows", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", name="pk_lrq_sessions"),
    )
    op.create_table(
        "lrq_snapshots",
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("build", sa.Text(), nullable=False),
        sa.Column("pinned_us", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("base_seq", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("expected_rows", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("retry_us", sa.BigInteger(), nullable=False),
        sa.Column("requested_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sync_id", name="pk_lrq_snapshots"),
    )
    op.create_index("ix_lrq_snapshots_client_state", "lrq_snapshots", ["client", "state"])
    op.create_index("ix_lrq_snapshots_build", "lrq_snapshots", ["build"])
    op.create_table(
        "lrq_snapshot_parts",
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sync_id", "part", name="pk_lrq_snapshot_parts"),
    )
    op.create_table(
        "lrq_snapshot_blocks",
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_ord", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("row_count", sa.Integer(), nullable=False),
        sa.Column("plain_size", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sync_id", "part", "attempt", "last_ord", name="pk_lrq_snapshot_blocks"),
    )
    op.create_table(
        "lrq_snapshot_providers",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", name="pk_lrq_snapshot_providers"),
    )


def _sink() -> None:
    op.create_table(
        "lrq_receive_queues",
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("registered_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", name="pk_lrq_receive_queues"),
        sa.UniqueConstraint("name", name="uq_lrq_receive_queues_name"),
    )
    op.create_table(
        "lrq_receive_marks",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("boundary_seq", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("staging_sync_id", sa.Text(), nullable=False),
        sa.Column("staging_rows", sa.BigInteger(), nullable=False),
        sa.Column("staging_bytes", sa.BigInteger(), nullable=False),
        sa.Column("staging_checksum", sa.BigInteger(), nullable=False),
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("sync_rows", sa.BigInteger(), nullable=False),
        sa.Column("base_seq", sa.BigInteger(), nullable=False),
        sa.Column("entries_total", sa.BigInteger(), nullable=False),
        sa.Column("duplicates_total", sa.BigInteger(), nullable=False),
        sa.Column("source_seq", sa.BigInteger(), nullable=False),
        sa.Column("source_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "version", name="pk_lrq_receive_marks"),
    )
    op.create_table(
        "lrq_receive_headers",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "seq", name="pk_lrq_receive_headers"),
    )
    op.create_table(
        "lrq_receive_entries",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("transaction_seq", sa.BigInteger(), nullable=False),
        sa.Column("committed_us", sa.BigInteger(), nullable=False),
        sa.Column("item_key", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "seq", name="pk_lrq_receive_entries"),
    )
    op.create_table(
        "lrq_receive_snapshot_blocks",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("last_row", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("plain_size", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "sync_id", "last_row", name="pk_lrq_receive_snapshot_blocks"),
    )
    op.create_table(
        "lrq_consumers",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("sync_id", sa.Text(), nullable=False),
        sa.Column("row_no", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("applied_total", sa.BigInteger(), nullable=False),
        sa.Column("undoes", sa.Boolean(), nullable=False),
        sa.Column("back_seq", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "version", name="pk_lrq_consumers"),
    )
    op.create_table(
        "lrq_consumer_failures",
        sa.Column("queue_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", name="pk_lrq_consumer_failures"),
    )
    op.create_table(
        "lrq_parked_entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("transaction_seq", sa.BigInteger(), nullable=False),
        sa.Column("committed_us", sa.BigInteger(), nullable=False),
        sa.Column("item_key", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("parked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_lrq_parked_entries"),
    )
    op.create_index("ix_lrq_parked_entries_queue_id", "lrq_parked_entries", ["queue_id"])
