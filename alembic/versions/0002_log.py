"""The log-entry queue, which each database keeps in its own way."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SLOTS = range(8)
TICK_SLOTS = range(8)

# The schema is written into the function: when it runs, at commit, the search path may be another one. A transaction
# may write into several, and is numbered in each. (No md5: some servers must not use it.)
SEQUENCE_COMMIT = """
DO $migration$ BEGIN EXECUTE format($template$
CREATE FUNCTION %1$I.lrq_sequence_commit() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  -- Queued by each row, because a condition of the trigger would be prepared anew by each statement.
  IF current_setting('lrq.%2$s', true) = 'yes' THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('lrq.%2$s', 'yes', true);  -- until the transaction or its savepoint ends
  INSERT INTO %1$I.lrq_log_commits (slot, xid, commit_seq, committed_us) VALUES (
    NEW.slot, NEW.xid, nextval('%1$I.lrq_commit_seq'),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  );
  RETURN NULL;
END $body$
$template$,
  current_schema(), 'sequenced_' || left(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 32)
); END $migration$
"""

TRIGGER = """
CREATE CONSTRAINT TRIGGER lrq_sequence_commit AFTER INSERT ON lrq_log_entries
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION lrq_sequence_commit()
"""

# Payloads are often compressed already, blocks always where it helps: trying again would only cost time.
NEVER_COMPRESSED = (
    ("lrq_log_entries", "payload"),
    ("lrq_snapshot_blocks", "block"),
    ("lrq_receive_entries", "payload"),
    ("lrq_receive_snapshot_blocks", "block"),
    ("lrq_parked_entries", "payload"),
)
# Few rows, updated for ever: room for updates in place, and a vacuum before they become many pages.
BUSY = ("lrq_log_head", "lrq_sessions", "lrq_leases", "lrq_receive_marks", "lrq_consumers")
BUSY_SETTINGS = "fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0"


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def downgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        for slot in SLOTS:
            op.drop_table(f"lrq_log_entries_{slot}")
        return
    for slot in TICK_SLOTS:
        op.drop_table(f"lrq_ticks_{slot}")
    op.drop_table("lrq_log_entries")
    op.drop_table("lrq_log_commits")
    op.execute("DROP FUNCTION lrq_sequence_commit()")
    op.execute("DROP SEQUENCE lrq_commit_seq, lrq_log_segment")


def _sqlite() -> None:
    for slot in SLOTS:
        name = f"lrq_log_entries_{slot}"
        op.create_table(
            name,
            sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("transaction_id", sa.BigInteger(), nullable=False),
            sa.Column("client", sa.Text(), nullable=False),
            sa.Column("tag_set", sa.BigInteger(), nullable=False),
            sa.Column("destinations", sa.Text(), nullable=True),
            sa.Column("item_key", sa.Text(), nullable=True),
            sa.Column("partition_key", sa.Text(), nullable=True),
            sa.Column("created_us", sa.BigInteger(), nullable=False),
            sa.Column("payload", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        )
        op.create_index(f"ix_{name}_tag_set", name, ["tag_set", "id"])


def _postgresql() -> None:
    op.create_table(
        "lrq_log_entries",
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True, cache=32), nullable=False),
        sa.Column(
            "xid", sa.BigInteger(), server_default=sa.text("(pg_current_xact_id())::text::bigint"), nullable=False
        ),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("tag_set", sa.BigInteger(), nullable=False),
        sa.Column("destinations", sa.Text(), nullable=True),
        sa.Column("item_key", sa.Text(), nullable=True),
        sa.Column("partition_key", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        postgresql_partition_by="LIST (slot)",
    )
    op.create_index("ix_lrq_log_entries_tag_set", "lrq_log_entries", ["tag_set", "xid"])
    op.create_index("ix_lrq_log_entries_xid", "lrq_log_entries", ["xid", "id"])
    op.create_table(
        "lrq_log_commits",
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("xid", sa.BigInteger(), nullable=False),
        sa.Column("commit_seq", sa.BigInteger(), nullable=False),
        sa.Column("committed_us", sa.BigInteger(), nullable=False),
        postgresql_partition_by="LIST (slot)",
    )
    op.create_index("ix_lrq_log_commits_xid", "lrq_log_commits", ["xid"])
    op.create_index("ix_lrq_log_commits_commit_seq", "lrq_log_commits", ["commit_seq"])
    for table, column in NEVER_COMPRESSED:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
    for slot in SLOTS:
        for table in ("lrq_log_entries", "lrq_log_commits"):
            op.execute(f"CREATE TABLE {table}_{slot} PARTITION OF {table} FOR VALUES IN ({slot})")
    for slot in TICK_SLOTS:
        op.execute(f"CREATE TABLE lrq_ticks_{slot} PARTITION OF lrq_ticks FOR VALUES IN ({slot})")
    op.execute("CREATE SEQUENCE lrq_commit_seq")
    op.execute("CREATE SEQUENCE lrq_log_segment MINVALUE 0 START 0")
    op.execute("SELECT nextval('lrq_log_segment')")  # the first value is 0, so the next call begins segment 1
    op.execute(SEQUENCE_COMMIT)
    op.execute(TRIGGER)
    for table in BUSY:
        op.execute(f"ALTER TABLE {table} SET ({BUSY_SETTINGS})")
