"""A row that an update moves is deleted at one site and inserted at the other, on PostgreSQL."""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

FUNCTION = "lrq_follow_row()"
# Each pair is a part of the function and its replacement.
PARTS = (
    (
        "  sites text[] := string_to_array(TG_ARGV[2], ',');\n",
        """  sites text[] := string_to_array(TG_ARGV[2], ',');
  sites_before text[];
  sites_after text[];
  moved text[];
""",
    ),
    (
        "    -- Both the site that loses a row and the site that gets the row learn of the change.\n"
        "    SELECT array_agg(DISTINCT btrim(n.name)) INTO sites\n"
        "      FROM unnest(ARRAY[before -> TG_ARGV[2], after -> TG_ARGV[2]]) AS v (named)\n",
        """    SELECT array_agg(DISTINCT btrim(n.name)),
      coalesce(array_agg(btrim(n.name)) FILTER (WHERE v.is_before), '{}'),
      coalesce(array_agg(btrim(n.name)) FILTER (WHERE NOT v.is_before), '{}') INTO sites, sites_before, sites_after
      FROM (VALUES (true, before -> TG_ARGV[2]), (false, after -> TG_ARGV[2])) AS v (is_before, named)
""",
    ),
    (
        "  ELSIF TG_OP = 'UPDATE' THEN\n",
        """  ELSIF TG_OP = 'UPDATE' THEN
    IF TG_ARGV[1] = 'column' THEN
      -- For a site that loses the row or gets the row, the update is a delete or an insert.
      moved := ARRAY(SELECT s.name FROM unnest(sites) AS s (name) WHERE s.name <> ALL (sites_after));
      IF moved <> '{}' THEN
        change := json_build_object('table', place, 'op', 'delete', 'old', row_to_json(OLD));
        PERFORM @schema@.lrq_transmit(TG_ARGV[0], convert_to(change::text, 'UTF8'), moved);
      END IF;
      moved := ARRAY(SELECT s.name FROM unnest(sites) AS s (name) WHERE s.name <> ALL (sites_before));
      IF moved <> '{}' THEN
        change := json_build_object('table', place, 'op', 'insert', 'row', row_to_json(NEW));
        PERFORM @schema@.lrq_transmit(TG_ARGV[0], convert_to(change::text, 'UTF8'), moved);
      END IF;
      sites := ARRAY(SELECT s.name FROM unnest(sites) AS s (name)
        WHERE s.name = ANY (sites_before) AND s.name = ANY (sites_after));
      IF sites = '{}' THEN
        RETURN NULL;
      END IF;
    END IF;
""",
    ),
)
REPLACED = """
DO $migration$
DECLARE
  place text := quote_ident(current_schema());
  found text := pg_get_functiondef((place || '.lrq_follow_row()')::regprocedure);
BEGIN
  IF {missing} THEN
    RAISE EXCEPTION 'lrq_follow_row is not the function of lrq: restore it, then migrate again';
  END IF;
  EXECUTE {replaced};
END $migration$
"""


def _replace(parts: tuple[tuple[str, str], ...]) -> None:
    # Changes nothing. Another role than the owner is refused here, before it is refused a new function.
    op.execute(f"ALTER FUNCTION {FUNCTION} VOLATILE")
    replaced = "found"
    for old, new in parts:
        replaced = f"replace({replaced}, {_in_schema(old)}, {_in_schema(new)})"
    missing = " OR ".join(f"strpos(found, {_in_schema(old)}) = 0" for old, _ in parts)
    op.execute(REPLACED.format(missing=missing, replaced=replaced))


def _in_schema(part: str) -> str:
    """Return *part* as an expression of SQL."""
    quoted = part.replace("'", "''")
    return f"replace('{quoted}', '@schema@', place)"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _replace(PARTS)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _replace(tuple((new, old) for old, new in reversed(PARTS)))
