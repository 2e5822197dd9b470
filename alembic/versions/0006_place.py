"""A transaction takes its place at its real commit, also after SET CONSTRAINTS ALL IMMEDIATE.

A place knows the timeline of its commit, and a branch knows the transactions that it has inherited.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# See 0002. The setting is empty before the first firing, and `yes` once the place is taken. In between are `?n` while
# row n tries the constraints, and `!` if they are immediate. Row n waits for the commit under `+n`.
FUNCTION = """
DO $migration$ BEGIN EXECUTE format($template$
CREATE OR REPLACE FUNCTION %1$I.{name}() RETURNS {head} AS $body$
{body}
$body$
$template$,
  current_schema(), 'sequenced_' || left(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 32)
); END $migration$
"""
# Applications that may not write to the helper table take their place as before.
DEFINER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
PLACE = """INSERT INTO %1$I.lrq_log_commits (slot, xid, commit_seq, committed_us) VALUES (
    (SELECT (last_value %% 8)::smallint FROM %1$I.lrq_log_segment), {xid}, nextval('%1$I.lrq_commit_seq'),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  );"""
SEQUENCE_COMMIT = f"""
BEGIN
  -- Queued by each row, because a condition of the trigger would be prepared anew by each statement.
  IF current_setting('lrq.%2$s', true) <> '' THEN
    RETURN NULL;
  END IF;
  -- Logical replication and restores copy rows with the id of another transaction.
  IF NEW.xid <> pg_current_xact_id()::text::bigint THEN
    RETURN NULL;
  END IF;
  -- Only a firing within another message may come from SET CONSTRAINTS, and only such a firing costs a trial.
  IF upper(left(current_query(), 8)) IN ('COMMIT', 'COMMIT;', 'END', 'END;') AND pg_trigger_depth() = 1 THEN
    PERFORM set_config('lrq.%2$s', 'yes', true);  -- until the transaction or its savepoint ends
    {PLACE.format(xid="NEW.xid").replace("  );", "    );")}
  ELSE
    PERFORM %1$I.lrq_take_place();
  END IF;
  RETURN NULL;
END"""
# A deferred trigger fires in two cases: at a commit, or after SET CONSTRAINTS has made it immediate. In the second
# case a new row of the helper table fires its trigger at once. Then another row waits for the next firing.
TAKE_PLACE = f"""
DECLARE
  trial bigint := nextval('%1$I.lrq_waiting_place_seq');
  standing text := set_config('lrq.%2$s', '?' || trial, true);
BEGIN
  INSERT INTO %1$I.lrq_waiting_places (number, waits) VALUES (trial, false);
  DELETE FROM %1$I.lrq_waiting_places WHERE number = trial;
  IF current_setting('lrq.%2$s') = standing THEN
    PERFORM set_config('lrq.%2$s', 'yes', true);
    {PLACE.format(xid="pg_current_xact_id()::text::bigint").replace("  );", "    );")}
  ELSE
    SET CONSTRAINTS %1$I.lrq_sequence_commit DEFERRED;
    trial := nextval('%1$I.lrq_waiting_place_seq');
    PERFORM set_config('lrq.%2$s', '+' || trial, true);
    INSERT INTO %1$I.lrq_waiting_places (number, waits) VALUES (trial, true);
  END IF;
END"""  # noqa: S608 - constants
TRY_PLACE = """
DECLARE
  standing text := coalesce(current_setting('lrq.%2$s', true), '');
BEGIN
  IF standing = '?' || NEW.number THEN
    PERFORM set_config('lrq.%2$s', '!', true);
  ELSIF NEW.waits THEN
    DELETE FROM %1$I.lrq_waiting_places WHERE number = NEW.number;
    -- RESET ALL empties the setting.
    IF standing IN ('', '+' || NEW.number) THEN
      PERFORM %1$I.lrq_take_place();
    END IF;
  END IF;
  RETURN NULL;
END"""
# The name is that of the trigger of the entries, because SET CONSTRAINTS may change constraints by name.
TRIGGER = """
CREATE CONSTRAINT TRIGGER lrq_sequence_commit AFTER INSERT ON lrq_waiting_places
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION lrq_try_place()
"""
# The function of 0003.
BEFORE = f"""
BEGIN
  -- Queued by each row, because a condition of the trigger would be prepared anew by each statement.
  IF current_setting('lrq.%2$s', true) = 'yes' THEN
    RETURN NULL;
  END IF;
  -- Logical replication and restores copy rows with the id of another transaction.
  IF NEW.xid <> pg_current_xact_id()::text::bigint THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('lrq.%2$s', 'yes', true);  -- until the transaction or its savepoint ends
  {PLACE.format(xid="NEW.xid")}
  RETURN NULL;
END"""


TIMELINE = "lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))"


def upgrade() -> None:
    op.add_column("lrq_branches", sa.Column("inherited", sa.Text(), server_default=sa.text("''"), nullable=False))
    op.create_table(
        "lrq_receive_branches",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("timeline", sa.Text(), nullable=False),
        sa.Column("inherited", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("client", "source", "number", name="pk_lrq_receive_branches"),
    )
    if op.get_context().dialect.name == "sqlite":
        return
    # In two steps: earlier places keep no timeline, and the table is not rewritten.
    op.add_column("lrq_log_commits", sa.Column("timeline", sa.Text(), nullable=True))
    op.alter_column("lrq_log_commits", "timeline", server_default=sa.text(TIMELINE))
    op.create_table(
        "lrq_waiting_places",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_lrq_waiting_places"),
    )
    op.execute("ALTER TABLE lrq_waiting_places SET (autovacuum_vacuum_scale_factor = 0)")
    op.execute("CREATE SEQUENCE lrq_waiting_place_seq CACHE 32")
    op.execute(FUNCTION.format(name="lrq_take_place", head=f"void {DEFINER}", body=TAKE_PLACE))
    op.execute(FUNCTION.format(name="lrq_try_place", head=f"trigger {DEFINER}", body=TRY_PLACE))
    op.execute(TRIGGER)
    op.execute("ALTER TABLE lrq_waiting_places ENABLE ALWAYS TRIGGER lrq_sequence_commit")
    op.execute(FUNCTION.format(name="lrq_sequence_commit", head="trigger LANGUAGE plpgsql", body=SEQUENCE_COMMIT))


def downgrade() -> None:
    op.drop_table("lrq_receive_branches")
    op.drop_column("lrq_branches", "inherited")
    if op.get_context().dialect.name == "sqlite":
        return
    op.execute(FUNCTION.format(name="lrq_sequence_commit", head="trigger LANGUAGE plpgsql", body=BEFORE))
    op.drop_table("lrq_waiting_places")
    op.drop_column("lrq_log_commits", "timeline")
    op.execute("DROP FUNCTION lrq_try_place()")
    op.execute("DROP FUNCTION lrq_take_place()")
    op.execute("DROP SEQUENCE lrq_waiting_place_seq")
