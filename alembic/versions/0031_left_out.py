"""SQL transmits: an entry that a trigger of others leaves out is refused, on PostgreSQL also for followed tables."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_WORDS = "a trigger or rule that is not of lrq left rows out of lrq_log_entries: drop it, or let the trigger fire AFTER"

# ----------------------------------------------------------------------------------------------- PostgreSQL

TRANSMIT = "lrq_transmit(text, bytea, text[], text, text, jsonb)"
ANCHOR = "RETURNING e.xid INTO transaction;\n"
# A row that is left out returns nothing.
CHECKED = f"""  IF transaction IS NULL THEN
    RAISE EXCEPTION ''{_WORDS}'' USING ERRCODE = ''LR012'';
  END IF;
"""
PATCHED = f"""
DO $migration$
DECLARE
  found text := pg_get_functiondef((quote_ident(current_schema()) || '.{TRANSMIT}')::regprocedure);
BEGIN
  IF strpos(found, '{{old}}') = 0 THEN
    RAISE EXCEPTION 'lrq_transmit is not the function of lrq: restore it, then migrate again';
  END IF;
  EXECUTE replace(found, '{{old}}', '{{new}}');
END $migration$
"""


def _patch(old: str, new: str) -> None:
    """Replace *old* by *new* in the body of `lrq_transmit`; its rights stay."""
    # Changes nothing. Another role than the owner is refused here, before it is refused a new function.
    op.execute(f"ALTER FUNCTION {TRANSMIT} SECURITY DEFINER")
    op.execute(PATCHED.format(old=old, new=new))


# --------------------------------------------------------------------------------------------------- SQLite

SLOTS = range(8)
_STORED = "\n".join(
    f"    WHEN {slot} THEN EXISTS (SELECT 1 FROM lrq_log_entries_{slot} e WHERE e.id = NEW.last_id)"  # noqa: S608
    for slot in SLOTS
)
# The last step of the trigger of the view writes this column, after the entry.
TRIGGER = f"""
CREATE TRIGGER lrq_sql_written_stored AFTER UPDATE OF changes_total ON lrq_sql_written BEGIN
  SELECT RAISE(ABORT, '{_WORDS} (LR012)')
  WHERE NOT CASE NEW.slot
{_STORED}
  END;
END
"""


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        op.execute(TRIGGER)
    else:
        _patch(ANCHOR, ANCHOR + CHECKED)


def downgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER lrq_sql_written_stored")
    else:
        _patch(ANCHOR + CHECKED, ANCHOR)
