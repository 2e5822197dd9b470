"""Links that end: the wishes of operators, the ends of streams, and refusals of entries for an ended link."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_REFUSED = "the link of client % to % has ended: leave the site out, or run `lrq link begin`"

# ----------------------------------------------------------------------------------------------- PostgreSQL

# The schema is written into the bodies: the search path of a caller may be another one.
IN_SCHEMA = """
DO $migration$ BEGIN EXECUTE format($template$
{statement}
$template$, current_schema()); END $migration$
"""
# A transaction with an old snapshot does not see the newest wishes. The lock then raises a serialization failure, and
# otherwise waits for a change in progress. The number returned is that of the last change that is visible here.
CHECK_LINKS = f"""
CREATE FUNCTION %1$I.lrq_check_links(client text, destinations text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  refused text;
  change bigint;
BEGIN
  PERFORM FROM %1$I.lrq_link_changes FOR SHARE;
  change := (SELECT last_value FROM %1$I.lrq_link_change);
  SELECT min(l.destination COLLATE "C") INTO refused FROM %1$I.lrq_links l
    WHERE l.client = client AND l.destination = ANY (destinations) AND l.wish IN ('draining', 'ended');
  IF refused IS NOT NULL THEN
    RAISE EXCEPTION '{_REFUSED.replace("%", "%%")}', quote_literal(client), quote_literal(refused)
      USING ERRCODE = 'LR011';
  END IF;
  RETURN change;
END $body$
"""  # noqa: S608 - constants
# The entry is written before the check. So the transaction has its id, and an end that the check does not see waits for
# the transaction.
CHECKED = """  IF EXISTS (SELECT FROM {schema}.lrq_links l
      WHERE l.client = client AND l.destination = ANY (destinations) AND l.wish IN (''draining'', ''ended''))
    OR (SELECT c.number FROM {schema}.lrq_link_changes c) <> (SELECT last_value FROM {schema}.lrq_link_change)
  THEN
    PERFORM {schema}.lrq_check_links(client, destinations);
  END IF;
"""
ANCHOR = "  IF NOT facts.is_silent THEN\n"
TRANSMIT = "lrq_transmit(text, bytea, text[], text, text, jsonb)"


def _patched(old: str, new: str) -> str:
    """Return a DO block that replaces *old* by *new* in the body of `lrq_transmit`; its rights stay."""
    return f"""
DO $migration$
DECLARE
  old text := replace('{old}', '{{schema}}', quote_ident(current_schema()));
  new text := replace('{new}', '{{schema}}', quote_ident(current_schema()));
  found text := pg_get_functiondef((quote_ident(current_schema()) || '.{TRANSMIT}')::regprocedure);
BEGIN
  IF strpos(found, old) = 0 THEN
    RAISE EXCEPTION 'lrq_transmit is not the function of lrq: restore it, then migrate again';
  END IF;
  EXECUTE replace(found, old, new);
END $migration$
"""


def _postgresql() -> None:
    # The number of the last change, for transactions whose snapshot is older.
    op.execute("CREATE SEQUENCE lrq_link_change MINVALUE 0 START 0")
    op.execute(IN_SCHEMA.format(statement=CHECK_LINKS))
    op.execute("REVOKE EXECUTE ON FUNCTION lrq_check_links(text, text[]) FROM PUBLIC")
    op.execute(_patched(ANCHOR, CHECKED + ANCHOR))


def _drop_postgresql() -> None:
    op.execute(_patched(CHECKED + ANCHOR, ANCHOR))
    op.execute("DROP FUNCTION lrq_check_links(text, text[])")
    op.execute("DROP SEQUENCE lrq_link_change")


# --------------------------------------------------------------------------------------------------- SQLite

# A trigger of its own: SQLite calls both triggers of the view for each entry, and a refusal undoes the changes of both.
TRIGGER = """
CREATE TRIGGER lrq_transmit_links INSTEAD OF INSERT ON lrq_transmit BEGIN
  SELECT RAISE(ABORT, 'the link of the client to a destination has ended: leave the site out, or run `lrq link begin` (LR011)')
  WHERE EXISTS (SELECT 1 FROM lrq_links l WHERE l.client = NEW.client AND l.wish IN ('draining', 'ended')
    AND instr(',' || NEW.destinations || ',', ',' || l.destination || ','));
END
"""  # noqa: E501 - one constant text


def upgrade() -> None:
    op.create_table(
        "lrq_links",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("wish", sa.Text(), nullable=False),
        sa.Column("asked_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("client", "destination", name="pk_lrq_links"),
    )
    op.create_table(
        "lrq_link_changes",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("last_queue_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_link_changes"),
    )
    op.execute("INSERT INTO lrq_link_changes (one, number, last_queue_id) VALUES (1, 0, 0)")
    for table in ("lrq_receive_marks", "lrq_consumers"):
        op.add_column(table, sa.Column("ended_seq", sa.BigInteger(), server_default="-1", nullable=False))
    if op.get_context().dialect.name == "sqlite":
        op.execute(TRIGGER)
    else:
        _postgresql()


def downgrade() -> None:
    # Another role than the owner is refused here, before it is refused a new function.
    for table in ("lrq_consumers", "lrq_receive_marks"):
        op.drop_column(table, "ended_seq")
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER lrq_transmit_links")
    else:
        _drop_postgresql()
    op.drop_table("lrq_link_changes")
    op.drop_table("lrq_links")
