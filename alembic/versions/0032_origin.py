"""`lrq_follow` gets the parameter `origin`: whether rows that a listener applies are sent too, on PostgreSQL."""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

FOLLOW = "lrq_follow(regclass, text, text[], text)"
FOLLOW_FROM = "lrq_follow(regclass, text, text[], text, text)"
FOLLOW_ROW = "lrq_follow_row()"

# Each pair is a part of a function and its replacement.
PARAMETERS = (
    "destinations_column text DEFAULT NULL::text)",
    "destinations_column text DEFAULT NULL::text, origin text DEFAULT 'any'::text)",
)
CHECK = """  IF origin IS NULL OR origin NOT IN ('any', 'other', 'none') THEN
    RAISE EXCEPTION 'origin is %: write ''any'', ''other'' or ''none''', coalesce(quote_literal(origin), 'NULL')
      USING ERRCODE = 'LR009';
  END IF;
"""
_TARGET = "    'CREATE OR REPLACE TRIGGER %I AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW '\n"
_LAST = "array_to_string(destinations, ',')), followed.full_name"
IN_FOLLOW = (
    PARAMETERS,
    (f"  EXECUTE format(\n{_TARGET}", f"{CHECK}  EXECUTE format(\n{_TARGET}"),
    ("EXECUTE FUNCTION %s(%L, %L, %L, %L)'", "EXECUTE FUNCTION %s(%L, %L, %L, %L, %L)'"),
    (f"{_LAST});", f"{_LAST}, origin);"),
)
_FIRST = "  IF TG_ARGV[1] = 'column' THEN\n"
_PLACE = "  -- A trigger of a partitioned table fires in its partitions.\n"
# The transaction of a listener has the setting: the site whose entries are applied.
IN_FOLLOW_ROW = (
    (
        f"BEGIN\n{_FIRST}",
        f"""  applied_from text := nullif(current_setting('lrq.origin', true), '');
BEGIN
  IF TG_ARGV[4] = 'none' AND applied_from IS NOT NULL THEN
    RETURN NULL;
  END IF;
{_FIRST}""",
    ),
    (
        _PLACE,
        f"""  IF TG_ARGV[4] = 'other' THEN
    sites := array_remove(sites, applied_from);
    IF sites = '{{}}' THEN
      RETURN NULL;
    END IF;
  END IF;
{_PLACE}""",
    ),
)
# A changed list of parameters makes another function, which gets the rights of the one before.
REPLACED = """
DO $migration$
DECLARE
  place text := quote_ident(current_schema());
  before regprocedure := (place || '.{before}')::regprocedure;
  found text := pg_get_functiondef(before);
  given record;
BEGIN
  IF {missing} THEN
    RAISE EXCEPTION '{name} is not the function of lrq: restore it, then migrate again';
  END IF;
  EXECUTE {replaced};
  IF before <> (place || '.{after}')::regprocedure THEN
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s.{after} FROM PUBLIC', place);
    FOR given IN SELECT a.grantee, a.is_grantable FROM pg_proc p, aclexplode(p.proacl) a
      WHERE p.oid = before AND a.grantee <> p.proowner
    LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s.{after} TO %s', place,
        CASE WHEN given.grantee = 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END)
        || CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
    END LOOP;
    EXECUTE format('DROP FUNCTION %s', before);
  END IF;
END $migration$
"""


def _replace(before: str, after: str, parts: tuple[tuple[str, str], ...]) -> None:
    """Replace *parts* in the function *before*, which becomes *after* and keeps its rights."""
    # Changes nothing. Another role than the owner is refused here, before it is refused a new function.
    op.execute(f"ALTER FUNCTION {before} VOLATILE")
    replaced = "found"
    for old, new in parts:
        replaced = f"replace({replaced}, {_literal(old)}, {_literal(new)})"
    missing = " OR ".join(f"strpos(found, {_literal(old)}) = 0" for old, _ in parts)
    name = before.partition("(")[0]
    op.execute(REPLACED.format(before=before, after=after, missing=missing, name=name, replaced=replaced))


def _literal(words: str) -> str:
    quoted = words.replace("'", "''")
    return f"'{quoted}'"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _replace(FOLLOW, FOLLOW_FROM, IN_FOLLOW)
        _replace(FOLLOW_ROW, FOLLOW_ROW, IN_FOLLOW_ROW)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _replace(FOLLOW_FROM, FOLLOW, _back(IN_FOLLOW))
        _replace(FOLLOW_ROW, FOLLOW_ROW, _back(IN_FOLLOW_ROW))


def _back(parts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((new, old) for old, new in reversed(parts))
