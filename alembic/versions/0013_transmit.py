"""SQL transmits: a function on PostgreSQL, a view on SQLite; both for every language, trigger and shell."""

import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SLOTS = range(8)

# ---------------------------------------------------------------------------------------------------- names

# Letters and digits beyond ASCII that are normal by themselves, as code points; the rules are those of queues/names.py.
_BEYOND_ASCII = range(0x80, 0x40000)
# Of those, only Korean letters are normal alone and not in a row. The last pattern: a syllable that ends with a vowel.
_LEADS, _VOWELS, _TAILS = "\u1100-\u1112", "\u1161-\u1175", "\u11a8-\u11c2"
_OPEN_SYLLABLES = "".join(map(chr, range(0xAC00, 0xD7A4, 28)))
_WORD = "0-9A-Z_a-z"
_NAME_RULE = (
    "use 1 to 64 letters, digits, ''_'', ''-'' or ''.'', beginning with a letter, a digit or ''_'', "
    "in Unicode normal form C"
)


def _letters() -> str:
    """Return the allowed characters beyond ASCII, as ranges of a regular expression or of GLOB."""
    ranges: list[list[int]] = []
    for point in _BEYOND_ASCII:
        letter = chr(point)
        if letter.isalnum() and unicodedata.is_normalized("NFC", letter):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _escaped(characters: str) -> str:
    """Return characters as PostgreSQL's escapes, so that the printed migration is ASCII."""
    return "".join(c if c.isascii() else f"\\U{ord(c):08X}" for c in characters)


# ----------------------------------------------------------------------------------------------- PostgreSQL

# The schema is written into the bodies: the search path of a caller may be another one.
IN_SCHEMA = """
DO $migration$ BEGIN EXECUTE format($template$
{statement}
$template$, current_schema(), format('%I.lrq_site', current_schema())); END $migration$
"""
DEFINER = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"

CHECK_NAME = """
CREATE FUNCTION @schema@.lrq_check_name(name text, kind text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $body$
BEGIN
  IF name ~ '^[@word@][@word@.-]{0,63}$' THEN
    RETURN;
  END IF;
  -- Other encodings lack most letters, and regular expressions there count bytes.
  IF name IS NULL OR getdatabaseencoding() <> 'UTF8'
    OR name !~ '^[@word@@letters@][@word@@letters@.-]{0,63}$'
    OR name ~ '[@leads@][@vowels@]|[@open@][@tails@]'
  THEN
    RAISE EXCEPTION '% is not a valid %: @rule@',
      coalesce(quote_literal(regexp_replace(left(name, 65), '[\x01-\x1f\x7f]', '?', 'g')), 'NULL'), kind
      USING ERRCODE = 'LR001';
  END IF;
END $body$
"""

TRANSMIT = """
CREATE FUNCTION @schema@.lrq_transmit(
  client text, payload bytea, destinations text[],
  item_key text DEFAULT NULL, partition_key text DEFAULT NULL, headers jsonb DEFAULT NULL
) RETURNS text LANGUAGE plpgsql @definer@ AS $body$
#variable_conflict use_variable
DECLARE
  facts record;
  set_text text;
  set_number bigint;
  is_plain boolean;
  refused text;
  header_text text;
  transaction bigint;
BEGIN
  IF client IS NULL OR client !~ '^[@word@][@word@.-]{0,63}$' THEN
    PERFORM @schema@.lrq_check_name(client, 'client name');
  END IF;
  SELECT string_agg(n.name, ',' ORDER BY n.name), bool_and(coalesce(n.name ~ '^[@word@][@word@.-]{0,63}$', false))
    INTO set_text, is_plain
    FROM (SELECT DISTINCT u.name COLLATE "C" AS name FROM unnest(destinations) AS u (name)) AS n;
  IF is_plain IS NULL THEN
    RAISE EXCEPTION 'name at least one destination' USING ERRCODE = 'LR002';
  ELSIF NOT is_plain THEN
    PERFORM @schema@.lrq_check_name(u.name, 'site id') FROM unnest(destinations) AS u (name);
  END IF;
  IF payload IS NULL THEN
    RAISE EXCEPTION 'the payload is NULL: give bytes, which may be empty' USING ERRCODE = 'LR005';
  ELSIF octet_length(payload) > 16777216 THEN
    RAISE EXCEPTION 'the payload has % bytes, the limit is 16777216: split it', octet_length(payload)
      USING ERRCODE = 'LR004';
  END IF;
  IF char_length(item_key) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION 'item_key must have 1 to 512 characters, not %', char_length(item_key) USING ERRCODE = 'LR006';
  ELSIF char_length(partition_key) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION 'partition_key must have 1 to 512 characters, not %', char_length(partition_key)
      USING ERRCODE = 'LR006';
  END IF;
  IF headers <> '{}' THEN
    header_text := @schema@.lrq_check_headers(headers);
  END IF;
  SELECT s.site_id, s.branch, k.peers, k.known_only, (g.last_value % 8)::smallint AS slot,
      lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS timeline,
      split_part(b.incarnation, '/', 2) AS branch_timeline,
      pg_try_advisory_xact_lock_shared(1819439474, @site@::regclass::oid::int) AS is_silent
    INTO facts
    FROM @schema@.lrq_site s CROSS JOIN @schema@.lrq_log_segment g
    LEFT JOIN @schema@.lrq_known_sites k ON k.one = 1
    LEFT JOIN @schema@.lrq_branches b ON b.branch = s.branch;
  IF facts.site_id IS NULL THEN
    RAISE EXCEPTION 'the tables are there, but they belong to no site yet: run `lrq init`' USING ERRCODE = 'LR008';
  ELSIF facts.site_id = ANY (destinations) THEN
    RAISE EXCEPTION '% is this site itself, which has the entry already: name other sites as destinations',
      quote_literal(facts.site_id) USING ERRCODE = 'LR003';
  ELSIF facts.known_only THEN
    SELECT min(u.name COLLATE "C") INTO refused FROM unnest(destinations) AS u (name)
      WHERE u.name <> ALL (string_to_array(facts.peers, ','));
    IF refused IS NOT NULL THEN
      RAISE EXCEPTION 'no peer of % is named %: correct the name, or add the site to `peers`',
        quote_literal(facts.site_id), quote_literal(refused) USING ERRCODE = 'LR003';
    END IF;
  END IF;
  -- Python numbers the same set otherwise. Readers know sets by number, and a set may have several.
  set_number := ('x' || encode(substr(sha256(convert_to(client || chr(10) || set_text, 'UTF8')), 1, 8), 'hex'))
    ::bit(64)::bigint & 9223372036854775807;
  INSERT INTO @schema@.lrq_log_entries AS e
    (slot, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers)
    VALUES (
      facts.slot, client, set_number,
      CASE WHEN EXISTS (SELECT FROM @schema@.lrq_tag_sets t WHERE t.number = set_number AND t.shared)
        THEN NULL ELSE set_text END,
      item_key, partition_key, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, payload, header_text
    ) RETURNING e.xid INTO transaction;
  IF NOT facts.is_silent THEN
    PERFORM pg_notify('lrq_transmitted', '');
  END IF;
  RETURN facts.site_id || '/' || client || '/' || facts.branch || '/' || transaction
    || CASE WHEN facts.branch_timeline IN ('', '0', facts.timeline) THEN '' ELSE '/' || facts.timeline END;
END $body$
"""

CHECK_HEADERS = """
CREATE FUNCTION @schema@.lrq_check_headers(headers jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  found record;
  size bigint;
BEGIN
  IF jsonb_typeof(headers) <> 'object' THEN
    RAISE EXCEPTION 'headers must be a JSON object of names and texts, not %', jsonb_typeof(headers)
      USING ERRCODE = 'LR007';
  END IF;
  SELECT count(*) AS total, bool_and(char_length(h.key) BETWEEN 1 AND 128) AS are_named,
      min(h.key) FILTER (WHERE jsonb_typeof(h.value) <> 'string') AS other
    INTO found FROM jsonb_each(headers) AS h;
  IF found.total > 32 THEN
    RAISE EXCEPTION 'an entry has at most 32 headers, not %', found.total USING ERRCODE = 'LR007';
  ELSIF NOT found.are_named THEN
    RAISE EXCEPTION 'the name of a header must have 1 to 128 characters' USING ERRCODE = 'LR007';
  ELSIF found.other IS NOT NULL THEN
    RAISE EXCEPTION 'the header % must be a string, not %', quote_literal(found.other),
      jsonb_typeof(headers -> found.other) USING ERRCODE = 'LR007';
  END IF;
  -- PostgreSQL writes a space after each colon and comma, which the limit does not count.
  size := octet_length(convert_to(headers::text, 'UTF8')) - 2 * found.total + 1;
  IF size > 8192 THEN
    RAISE EXCEPTION 'the headers have % bytes as JSON, the limit is 8192: shorten them', size
      USING ERRCODE = 'LR007';
  END IF;
  RETURN headers::text;
END $body$
"""
SIGNATURES = (
    "lrq_transmit(text, bytea, text[], text, text, jsonb)",
    "lrq_check_headers(jsonb)",
    "lrq_check_name(text, text)",
)
# The functions of the ordering trigger. Deferred triggers run with the rights of the committing role, which may have
# none on the tables of lrq.
PLACES = ("lrq_sequence_commit()", "lrq_take_place()", "lrq_try_place()")


def _in_schema(statement: str) -> str:
    """Return a DO block that carries out *statement* with the schema at the time of the migration."""
    replaced = {
        "@definer@": DEFINER,
        "@word@": _WORD,
        "@letters@": _escaped(_letters()),
        "@leads@": _escaped(_LEADS),
        "@vowels@": _escaped(_VOWELS),
        "@tails@": _escaped(_TAILS),
        "@open@": _escaped(_OPEN_SYLLABLES),
        "@rule@": _NAME_RULE,
        "%": "%%",
        "@schema@": "%1$I",
        "@site@": "%2$L",
    }
    for mark, text in replaced.items():
        statement = statement.replace(mark, text)
    return IN_SCHEMA.replace("{statement}", statement)


def _postgresql() -> None:
    for statement in (CHECK_NAME, CHECK_HEADERS, TRANSMIT):
        op.execute(_in_schema(statement))
    for signature in SIGNATURES:
        op.execute(f"REVOKE EXECUTE ON FUNCTION {signature} FROM PUBLIC")
    op.execute(f"ALTER FUNCTION {PLACES[0]} {DEFINER}")
    for signature in PLACES:
        op.execute(f"REVOKE EXECUTE ON FUNCTION {signature} FROM PUBLIC")


def _drop_postgresql() -> None:
    for signature in PLACES:
        op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO PUBLIC")
    op.execute(f"ALTER FUNCTION {PLACES[0]} SECURITY INVOKER RESET search_path")
    for signature in SIGNATURES:
        op.execute(f"DROP FUNCTION {signature}")


# --------------------------------------------------------------------------------------------------- SQLite

# A trigger may raise only constant texts before SQLite 3.47, so the texts name no value and end with their code.
VIEW = """
CREATE VIEW lrq_transmit
(client, payload, destinations, item_key, partition_key, headers, transaction_key) AS
SELECT CAST(NULL AS TEXT), CAST(NULL AS BLOB), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT),
  CAST(NULL AS TEXT), CAST(NULL AS TEXT) WHERE 0
"""
TRANSMITTED = """
CREATE VIEW lrq_transmitted (token) AS
SELECT s.site_id || '/' || w.client || '/' || s.branch || '/' || w.last_id FROM lrq_site s, lrq_sql_written w
"""
# GLOB patterns of forbidden names: a letter outside the rule, and Korean letters that are not in normal form.
NAME_RULES = """
CREATE VIEW lrq_name_rules (outside, jamo, syllable) AS
SELECT CAST(x'@outside@' AS TEXT), CAST(x'@jamo@' AS TEXT), CAST(x'@syllable@' AS TEXT)
"""
_PLAIN = f"GLOB '*[^{_WORD}.-]*'"
# The names as one JSON list; true only for texts that need no escapes.
_GIVEN = """json_each('["' || replace(NEW.destinations, ',', '","') || '"]')"""
_KNOWN_SET = "EXISTS (SELECT 1 FROM lrq_sql_sets WHERE client = NEW.client AND given = NEW.destinations)"
_NOW = "(CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)"
# Damaged UTF-8 would stop every reader, so a text must equal its characters.
_IS_DAMAGED = """{0} GLOB '*[^ -~]*' AND CAST({0} AS BLOB) <> CAST((
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < length({0}))
    SELECT group_concat(char(unicode(substr({0}, i, 1))), '') FROM n) AS BLOB)"""


def _bad_letters(name: str) -> str:
    """Return a condition that is true for a text with a character that no name has."""
    return f"""({name} {_PLAIN} AND EXISTS (SELECT 1 FROM lrq_name_rules r
      WHERE {name} GLOB r.outside OR {name} GLOB r.jamo OR {name} GLOB r.syllable))"""  # noqa: S608 - constants


def _bad_name(name: str) -> str:
    """Return a condition that is true for a value that is no name."""
    return f"""(typeof({name}) <> 'text' OR instr({name}, char(0)) OR length({name}) NOT BETWEEN 1 AND 64
    OR {name} GLOB '[.-]*' OR {_bad_letters(name)})"""


def _bad_text(text: str) -> str:
    """Return a condition that is true for a text that is neither NULL nor a key."""
    return f"""{text} IS NOT NULL AND (typeof({text}) <> 'text' OR length({text}) NOT BETWEEN 1 AND 512
    OR instr({text}, char(0)) OR {_IS_DAMAGED.format(text)})"""


# Sorted, and the last of several headers with one name.
_HEADERS = """CASE WHEN json(NEW.headers) <> '{}' THEN (SELECT json_group_object(key, value)
      FROM (SELECT key, value, max(id) FROM json_each(NEW.headers) GROUP BY key ORDER BY key)) END"""
TRIGGER = f"""
CREATE TRIGGER lrq_transmit_insert INSTEAD OF INSERT ON lrq_transmit BEGIN
  SELECT CASE
    WHEN NOT EXISTS (SELECT 1 FROM lrq_site)
      THEN RAISE(ABORT, 'the tables are there, but they belong to no site yet: run `lrq init` (LR008)')
    WHEN typeof(NEW.destinations) = 'text' AND {_KNOWN_SET} THEN NULL
    WHEN {_bad_name("NEW.client")}
      THEN RAISE(ABORT, 'client is not a valid client name: {_NAME_RULE} (LR001)')
    WHEN coalesce(NEW.destinations, '') = ''
      THEN RAISE(ABORT, 'name at least one destination (LR002)')
    WHEN typeof(NEW.destinations) <> 'text' OR instr(NEW.destinations, char(0))
      OR {_bad_letters("replace(NEW.destinations, ',', '.')")}
      OR EXISTS (SELECT 1 FROM {_GIVEN} AS given WHERE {_bad_name("given.value")})
      THEN RAISE(ABORT, 'destinations has an invalid site id: separate site ids by commas, and {_NAME_RULE} (LR001)')
  END;
  SELECT CASE
    WHEN NEW.payload IS NULL
      THEN RAISE(ABORT, 'the payload is NULL: give a blob, which may be empty (LR005)')
    WHEN typeof(NEW.payload) <> 'blob'
      THEN RAISE(ABORT, 'the payload must be a blob: write CAST(... AS BLOB) (LR005)')
    WHEN length(NEW.payload) > 16777216
      THEN RAISE(ABORT, 'the payload has more bytes than the limit, which is 16777216: split it (LR004)')
    WHEN {_bad_text("NEW.item_key")}
      THEN RAISE(ABORT, 'item_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN {_bad_text("NEW.partition_key")}
      THEN RAISE(ABORT, 'partition_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN {_bad_text("NEW.transaction_key")}
      THEN RAISE(ABORT, 'transaction_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN NEW.headers IS NULL THEN NULL
    WHEN typeof(NEW.headers) <> 'text' OR NOT json_valid(NEW.headers) OR {_IS_DAMAGED.format("NEW.headers")}
      THEN RAISE(ABORT, 'headers must be the text of a JSON object of names and texts (LR007)')
    WHEN json_type(NEW.headers) <> 'object'
      OR EXISTS (SELECT 1 FROM json_each(NEW.headers) AS h WHERE h.type <> 'text')
      THEN RAISE(ABORT, 'headers must be the text of a JSON object of names and texts (LR007)')
    WHEN (SELECT count(DISTINCT h.key) FROM json_each(NEW.headers) AS h) > 32
      THEN RAISE(ABORT, 'an entry has at most 32 headers (LR007)')
    WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) AS h WHERE length(h.key) NOT BETWEEN 1 AND 128)
      THEN RAISE(ABORT, 'the name of a header must have 1 to 128 characters (LR007)')
    WHEN instr(replace(NEW.headers, '\\\\', ''), '\\u0000')
      THEN RAISE(ABORT, 'a header has a NUL character, which no database stores (LR007)')
    WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) AS h
        WHERE {_IS_DAMAGED.format("h.key")} OR {_IS_DAMAGED.format("h.value")})
      THEN RAISE(ABORT, 'a header has a character that is no Unicode text (LR007)')
    WHEN length(CAST({_HEADERS} AS BLOB)) > 8192
      THEN RAISE(ABORT, 'the headers have more bytes as JSON than the limit, which is 8192: shorten them (LR007)')
  END;
  SELECT CASE
    WHEN instr(',' || NEW.destinations || ',', ',' || s.site_id || ',')
      THEN RAISE(ABORT, 'destinations names this site itself, which has the entry already: name other sites (LR003)')
    WHEN k.known_only AND EXISTS (
        SELECT 1 FROM {_GIVEN} AS given WHERE NOT instr(',' || k.peers || ',', ',' || given.value || ','))
      THEN RAISE(ABORT, 'a destination is no peer of this site: correct the name, or add the site to `peers` (LR003)')
  END FROM lrq_site s LEFT JOIN lrq_known_sites k ON k.one = 1;

  -- Before all other changes of this row, because rows of one statement have no change between them.
  INSERT INTO lrq_sql_written (one, last_id, transaction_id, client, transaction_key, written_us, changes_total)
  SELECT 1, h.last_id + 1, CASE
      WHEN w.last_id = h.last_id
        AND w.last_id > coalesce(
          (SELECT CAST(substr(mark, 4) AS INTEGER) FROM lrq_ticks ORDER BY number DESC LIMIT 1), 0)
        AND CASE WHEN NEW.transaction_key IS NULL
          THEN w.transaction_key IS NULL AND w.written_us = {_NOW} AND w.changes_total = total_changes()
          ELSE w.transaction_key = NEW.transaction_key END
      THEN w.transaction_id ELSE h.last_id + 1 END,
    NEW.client, NEW.transaction_key, {_NOW}, 0
  FROM lrq_log_head h LEFT JOIN lrq_sql_written w ON w.one = 1 WHERE true
  ON CONFLICT (one) DO UPDATE SET last_id = excluded.last_id, transaction_id = excluded.transaction_id,
    client = excluded.client, transaction_key = excluded.transaction_key, written_us = excluded.written_us;
  INSERT INTO lrq_sql_sets (client, given, destinations, number)
  SELECT NEW.client, NEW.destinations, n.text, coalesce(
      (SELECT d.number FROM lrq_sql_sets d WHERE d.client = NEW.client AND d.destinations = n.text),
      random() & 9223372036854775807)
  FROM (SELECT group_concat(value, ',') AS text FROM (SELECT DISTINCT value FROM {_GIVEN} ORDER BY value)) AS n
  WHERE NOT {_KNOWN_SET};
  DELETE FROM lrq_sql_sets WHERE id <= (SELECT max(id) FROM lrq_sql_sets) - 4096;
  UPDATE lrq_log_head SET last_id = last_id + 1;
@inserts@
  UPDATE lrq_sql_written SET changes_total = total_changes() + 1;
END
"""  # noqa: S608 - constants
_INSERT = """
  INSERT INTO lrq_log_entries_{slot} (id, transaction_id, client, tag_set, destinations, item_key, partition_key,
    created_us, payload, headers)
  SELECT w.last_id, w.transaction_id, NEW.client, d.number,
    CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets t WHERE t.number = d.number AND t.shared)
      THEN NULL ELSE d.destinations END,
    NEW.item_key, NEW.partition_key, w.written_us, NEW.payload, {headers}
  FROM lrq_sql_written w, lrq_sql_sets d
  WHERE (SELECT slot FROM lrq_log_head) = {slot} AND d.client = NEW.client AND d.given = NEW.destinations;"""


def _sqlite() -> None:
    op.create_table(
        "lrq_sql_sets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("given", sa.Text(), nullable=False),
        sa.Column("destinations", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_lrq_sql_sets"),
    )
    op.create_index("ix_lrq_sql_sets_client", "lrq_sql_sets", ["client", "given"], unique=True)
    op.create_index("ix_lrq_sql_sets_destinations", "lrq_sql_sets", ["destinations", "client"])
    op.create_table(
        "lrq_sql_written",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("transaction_key", sa.Text(), nullable=True),
        sa.Column("written_us", sa.BigInteger(), nullable=False),
        sa.Column("changes_total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_sql_written"),
    )
    patterns = {
        "@outside@": f"*[^{_WORD}{_letters()}.-]*",
        "@jamo@": f"*[{_LEADS}][{_VOWELS}]*",
        "@syllable@": f"*[{_OPEN_SYLLABLES}][{_TAILS}]*",
    }
    rules = NAME_RULES
    for mark, pattern in patterns.items():
        rules = rules.replace(mark, pattern.encode().hex())
    inserts = "".join(_INSERT.format(slot=slot, headers=_HEADERS) for slot in SLOTS)
    for statement in (VIEW, TRANSMITTED, rules, TRIGGER.replace("@inserts@", inserts)):
        op.execute(statement)


def _drop_sqlite() -> None:
    for view in ("lrq_transmit", "lrq_transmitted", "lrq_name_rules"):
        op.execute(f"DROP VIEW {view}")
    for table in ("lrq_sql_written", "lrq_sql_sets"):
        op.drop_table(table)


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def downgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        _drop_sqlite()
    else:
        _drop_postgresql()
