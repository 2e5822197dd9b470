"""The ordering trigger fires always, and entries without a place in the order of commits are counted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SLOTS = range(8)

# See 0002. The schema is written into the function, because another search path may hold at the commit.
TEMPLATE = """
DO $migration$ BEGIN EXECUTE format($template$
CREATE OR REPLACE FUNCTION %1$I.lrq_sequence_commit() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  -- Queued by each row, because a condition of the trigger would be prepared anew by each statement.
  IF current_setting('lrq.%2$s', true) = 'yes' THEN
    RETURN NULL;
  END IF;{guard}
  PERFORM set_config('lrq.%2$s', 'yes', true);  -- until the transaction or its savepoint ends
  INSERT INTO %1$I.lrq_log_commits (slot, xid, commit_seq, committed_us) VALUES (
    {slot}, NEW.xid, nextval('%1$I.lrq_commit_seq'),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  );
  RETURN NULL;
END $body$
$template$,
  current_schema(), 'sequenced_' || left(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 32)
); END $migration$
"""
# A copied row takes no place, and a row that this transaction has written still takes one.
GUARD = """
  -- Logical replication and restores copy rows with the id of another transaction.
  IF NEW.xid <> pg_current_xact_id()::text::bigint THEN
    RETURN NULL;
  END IF;"""
# The place goes into the segment of the commit, so an emptied segment holds no place of later entries.
SLOT = "(SELECT (last_value %% 8)::smallint FROM %1$I.lrq_log_segment)"

TRIGGER = """
CREATE CONSTRAINT TRIGGER lrq_sequence_commit AFTER INSERT ON {table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION lrq_sequence_commit()
"""
ALWAYS = "ALTER TABLE {table} ENABLE ALWAYS TRIGGER lrq_sequence_commit"
# Before PostgreSQL 15 only a superuser may change the partitions' copies of a trigger, so these get their own.
OWN_TRIGGERS = f"""
DO $own$ BEGIN
  IF current_setting('server_version_num')::int < 150000 THEN
    DROP TRIGGER lrq_sequence_commit ON lrq_log_entries;
    FOR slot IN {min(SLOTS)}..{max(SLOTS)} LOOP
      EXECUTE format($trigger${TRIGGER.format(table="lrq_log_entries_%s")}$trigger$, slot);
      EXECUTE format('{ALWAYS.format(table="lrq_log_entries_%s")}', slot);
    END LOOP;
  ELSE
    {ALWAYS.format(table="lrq_log_entries")};
  END IF;
END $own$
"""

# An emptied segment took along the place of a transaction that had written to the next segment too.
# No tick needs these places, so the upgrade gives the entries new ones.
PLACES_OF_TRIMMED = """
INSERT INTO lrq_log_commits (slot, xid, commit_seq, committed_us)
SELECT max(e.slot), e.xid, nextval('lrq_commit_seq'), max(e.created_us) FROM lrq_log_entries e, (
  SELECT split_part(mark, '/', 2)::pg_snapshot AS seen FROM lrq_ticks JOIN lrq_log_head ON end_seq = trimmed_seq
) AS trimmed
WHERE pg_visible_in_snapshot(e.xid::text::xid8, trimmed.seen)
  AND NOT EXISTS (SELECT 1 FROM lrq_log_commits c WHERE c.xid = e.xid)
GROUP BY e.xid
"""


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    op.create_table(
        "lrq_unordered",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("waiting", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("client", name="pk_lrq_unordered"),
    )
    op.execute(TEMPLATE.format(guard=GUARD, slot=SLOT))
    op.execute(OWN_TRIGGERS)
    op.execute(PLACES_OF_TRIMMED)


def downgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    op.execute("DROP TRIGGER IF EXISTS lrq_sequence_commit ON lrq_log_entries")
    for slot in SLOTS:
        op.execute(f"DROP TRIGGER IF EXISTS lrq_sequence_commit ON lrq_log_entries_{slot}")
    op.execute(TRIGGER.format(table="lrq_log_entries"))
    op.execute(TEMPLATE.format(guard="", slot="NEW.slot"))
    op.drop_table("lrq_unordered")
