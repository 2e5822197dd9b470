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
$template$, current_schema(), format('%I.lrq_site', current_schema()),
  format('%I.lrq_follow_row', current_schema()), format('%I.lrq_refuse_truncate', current_schema())
); END $migration$
"""
DEFINER = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"

CHECK_NAME = """
CREATE FUNCTION @schema@.lrq_check_name(name text, kind text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $body$
BEGIN
  IF char_length(name) <= 64 AND name ~ '^[@word@][@word@.-]*$' THEN
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
  -- Short checks of plain names, because regular expressions with counts are slow.
  IF client IS NULL OR char_length(client) > 64 OR client !~ '^[@word@][@word@.-]*$' THEN
    PERFORM @schema@.lrq_check_name(client, 'client name');
  END IF;
  SELECT string_agg(n.name, ',' ORDER BY n.name),
      bool_and(coalesce(char_length(n.name) <= 64 AND n.name ~ '^[@word@][@word@.-]*$', false))
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
  SELECT s.site_id, s.branch,
      (SELECT k.peers FROM @schema@.lrq_known_sites k WHERE k.known_only) AS only_peers,
      (SELECT (g.last_value % 8)::smallint FROM @schema@.lrq_log_segment g) AS slot,
      lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS timeline,
      (SELECT split_part(b.incarnation, '/', 2) FROM @schema@.lrq_branches b WHERE b.branch = s.branch)
        AS branch_timeline,
      pg_try_advisory_xact_lock_shared(1819439474, @site@::regclass::oid::int) AS is_silent
    INTO facts FROM @schema@.lrq_site s;
  IF facts.site_id IS NULL THEN
    RAISE EXCEPTION 'the tables are there, but they belong to no site yet: run `lrq init`' USING ERRCODE = 'LR008';
  ELSIF facts.site_id = ANY (destinations) THEN
    RAISE EXCEPTION '% is this site itself, which has the entry already: name other sites as destinations',
      quote_literal(facts.site_id) USING ERRCODE = 'LR003';
  ELSIF facts.only_peers IS NOT NULL THEN
    SELECT min(u.name COLLATE "C") INTO refused FROM unnest(destinations) AS u (name)
      WHERE u.name <> ALL (string_to_array(facts.only_peers, ','));
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
    || CASE WHEN coalesce(facts.branch_timeline, '') IN ('', '0', facts.timeline) THEN ''
      ELSE '/' || facts.timeline END;
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
CHECK_FOLLOWER = """
CREATE FUNCTION @schema@.lrq_check_follower(client text, destinations text[]) RETURNS void
LANGUAGE plpgsql STABLE @definer@ AS $body$
#variable_conflict use_variable
DECLARE
  own text := (SELECT s.site_id FROM @schema@.lrq_site s);
BEGIN
  PERFORM @schema@.lrq_check_name(client, 'client name');
  PERFORM @schema@.lrq_check_name(u.name, 'site id') FROM unnest(destinations) AS u (name);
  IF own = ANY (destinations) THEN
    RAISE EXCEPTION '% is this site itself, which has the rows already: name other sites as destinations',
      quote_literal(own) USING ERRCODE = 'LR003';
  END IF;
END $body$
"""
# With the rights of the caller, so that PostgreSQL too refuses to change tables of other owners.
FOLLOW = """
CREATE FUNCTION @schema@.lrq_follow(
  table_name regclass, client text, destinations text[] DEFAULT NULL, destinations_column text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  followed record;
  column_type text;
BEGIN
  SELECT c.relkind, c.relname, n.nspname, format('%I.%I', n.nspname, c.relname) AS full_name,
      pg_has_role(c.relowner, 'USAGE') AS is_own
    INTO followed FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = table_name;
  IF followed IS NULL THEN
    RAISE EXCEPTION 'there is no such table: name the table that the client follows' USING ERRCODE = 'LR009';
  ELSIF followed.relkind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION '% is no table: follow the tables behind it', followed.full_name USING ERRCODE = 'LR009';
  ELSIF followed.nspname = @schema_text@ AND followed.relname LIKE 'lrq\\_%' THEN
    RAISE EXCEPTION '% is a table of lrq: follow tables of the application', followed.full_name
      USING ERRCODE = 'LR009';
  ELSIF NOT followed.is_own THEN
    RAISE EXCEPTION 'only the owner of % may follow it: call lrq_follow as the owner', followed.full_name
      USING ERRCODE = 'LR009';
  ELSIF (destinations IS NULL) = (destinations_column IS NULL) THEN
    RAISE EXCEPTION 'give either destinations or destinations_column' USING ERRCODE = 'LR009';
  ELSIF cardinality(destinations) = 0 THEN
    RAISE EXCEPTION 'name at least one destination' USING ERRCODE = 'LR002';
  END IF;
  IF destinations_column IS NOT NULL THEN
    SELECT coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text INTO column_type
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      WHERE a.attrelid = table_name AND a.attname = destinations_column AND a.attnum > 0 AND NOT a.attisdropped;
    IF column_type IS NULL THEN
      RAISE EXCEPTION '% has no column %: name a column with site ids', followed.full_name,
        quote_literal(destinations_column) USING ERRCODE = 'LR009';
    ELSIF column_type NOT IN ('text', 'character varying', 'text[]', 'character varying[]') THEN
      RAISE EXCEPTION 'the column % of % is %, but site ids are text or text[]: name another column',
        quote_literal(destinations_column), followed.full_name, column_type USING ERRCODE = 'LR009';
    END IF;
  END IF;
  PERFORM @schema@.lrq_check_follower(client, destinations);
  EXECUTE format(
    'CREATE OR REPLACE TRIGGER %I AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW '
    'EXECUTE FUNCTION %s(%L, %L, %L, %L)',
    @schema@.lrq_follow_name(client), followed.full_name, @follow_row@, client,
    CASE WHEN destinations IS NULL THEN 'column' ELSE 'sites' END,
    coalesce(destinations_column, array_to_string(destinations, ',')), followed.full_name);
  EXECUTE format(
    'CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s(%L)',
    'no_' || @schema@.lrq_follow_name(client), followed.full_name, @refuse_truncate@, client);
END $body$
"""
UNFOLLOW = """
CREATE FUNCTION @schema@.lrq_unfollow(table_name regclass, client text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
  full_name text := (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = table_name);
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger t
    WHERE t.tgrelid = table_name AND t.tgname = @schema@.lrq_follow_name(client) AND t.tgparentid = 0)
  THEN
    RAISE EXCEPTION 'client % does not follow %: correct the client or the table',
      coalesce(quote_literal(client), 'NULL'), coalesce(full_name, 'NULL') USING ERRCODE = 'LR009';
  END IF;
  EXECUTE format('DROP TRIGGER %I ON %s', @schema@.lrq_follow_name(client), full_name);
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', 'no_' || @schema@.lrq_follow_name(client), full_name);
END $body$
"""
# The name of a trigger has at most 63 bytes.
FOLLOW_NAME = """
CREATE FUNCTION @schema@.lrq_follow_name(client text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT 'lrq_follow_' || CASE WHEN octet_length(client) <= 40 THEN client
    ELSE left(encode(sha256(convert_to(client, 'UTF8')), 'hex'), 40) END
$body$
"""
# With these settings a value has the same text in every session.
FOLLOW_ROW = """
CREATE FUNCTION @schema@.lrq_follow_row() RETURNS trigger LANGUAGE plpgsql @definer@
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET bytea_output = 'hex'
SET extra_float_digits = 1 AS $body$
DECLARE
  sites text[] := string_to_array(TG_ARGV[2], ',');
  place text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
  before jsonb;
  after jsonb;
  change json;
BEGIN
  IF TG_ARGV[1] = 'column' THEN
    IF TG_OP <> 'INSERT' THEN
      before := to_jsonb(OLD);
    END IF;
    IF TG_OP <> 'DELETE' THEN
      after := to_jsonb(NEW);
    END IF;
    IF NOT coalesce(after, before) ? TG_ARGV[2] THEN
      RAISE EXCEPTION '% has no column % any more: follow the table again with another column', place,
        quote_literal(TG_ARGV[2]) USING ERRCODE = 'LR009';
    END IF;
    -- Both the site that loses a row and the site that gets the row learn of the change.
    SELECT array_agg(DISTINCT btrim(n.name)) INTO sites
      FROM unnest(ARRAY[before -> TG_ARGV[2], after -> TG_ARGV[2]]) AS v (named)
      CROSS JOIN jsonb_array_elements_text(CASE jsonb_typeof(v.named) WHEN 'array' THEN v.named
        WHEN 'string' THEN to_jsonb(string_to_array(v.named #>> '{}', ',')) ELSE '[]' END) AS n (name)
      WHERE btrim(n.name) IS DISTINCT FROM (SELECT s.site_id FROM @schema@.lrq_site s);
    IF sites IS NULL THEN
      RETURN NULL;
    END IF;
  END IF;
  -- A trigger of a partitioned table fires in its partitions.
  IF pg_partition_root(TG_RELID) <> TG_RELID THEN
    place := TG_ARGV[3];
  END IF;
  IF TG_OP = 'INSERT' THEN
    change := json_build_object('table', place, 'op', 'insert', 'row', row_to_json(NEW));
  ELSIF TG_OP = 'UPDATE' THEN
    change := json_build_object('table', place, 'op', 'update', 'row', row_to_json(NEW), 'old', row_to_json(OLD));
  ELSE
    change := json_build_object('table', place, 'op', 'delete', 'old', row_to_json(OLD));
  END IF;
  PERFORM @schema@.lrq_transmit(TG_ARGV[0], convert_to(change::text, 'UTF8'), sites);
  RETURN NULL;
END $body$
"""
REFUSE_TRUNCATE = """
CREATE FUNCTION @schema@.lrq_refuse_truncate() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RAISE EXCEPTION 'client % follows the rows of %, and TRUNCATE names no rows: use DELETE, or lrq_unfollow first',
    quote_literal(TG_ARGV[0]), format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME) USING ERRCODE = 'LR010';
END $body$
"""
FUNCTIONS = (
    CHECK_NAME, CHECK_HEADERS, TRANSMIT, CHECK_FOLLOWER, FOLLOW_NAME, FOLLOW_ROW, REFUSE_TRUNCATE, FOLLOW, UNFOLLOW,
)  # fmt: skip
SIGNATURES = (
    "lrq_transmit(text, bytea, text[], text, text, jsonb)",
    "lrq_check_headers(jsonb)",
    "lrq_check_name(text, text)",
    "lrq_follow(regclass, text, text[], text)",
    "lrq_unfollow(regclass, text)",
    "lrq_follow_name(text)",
    "lrq_follow_row()",
    "lrq_refuse_truncate()",
    "lrq_check_follower(text, text[])",
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
        "@schema_text@": "%1$L",
        "@site@": "%2$L",
        "@follow_row@": "%3$L",
        "@refuse_truncate@": "%4$L",
    }
    for mark, text in replaced.items():
        statement = statement.replace(mark, text)
    return IN_SCHEMA.replace("{statement}", statement)


def _postgresql() -> None:
    for statement in FUNCTIONS:
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
        # The triggers on tables of the application end with their functions.
        op.execute(f"DROP FUNCTION {signature} CASCADE")


# --------------------------------------------------------------------------------------------------- SQLite

# Before SQLite 3.47 a trigger may raise only constant texts. So the texts name no value, and end with their code.
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
    OR instr({text}, char(0)))"""


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
    WHEN EXISTS (SELECT 1 FROM (
        SELECT CASE WHEN NOT {_KNOWN_SET} THEN NEW.client || ',' || NEW.destinations END AS t
        UNION ALL SELECT NEW.item_key UNION ALL SELECT NEW.partition_key UNION ALL SELECT NEW.transaction_key
        UNION ALL SELECT NEW.headers)
        WHERE {_IS_DAMAGED.format("t")})
      THEN RAISE(ABORT, 'a text has bytes that are no UTF-8: write the text again (LR006)')
    WHEN {_bad_text("NEW.item_key")}
      THEN RAISE(ABORT, 'item_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN {_bad_text("NEW.partition_key")}
      THEN RAISE(ABORT, 'partition_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN {_bad_text("NEW.transaction_key")}
      THEN RAISE(ABORT, 'transaction_key must be a text of 1 to 512 characters without NUL (LR006)')
    WHEN NEW.headers IS NULL THEN NULL
    WHEN typeof(NEW.headers) <> 'text' OR NOT json_valid(NEW.headers)
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
        WHERE {_IS_DAMAGED.format("(h.key || h.value)")})
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
  UPDATE lrq_sql_written SET (slot, tag_set, destinations, headers) = (
    SELECT h.slot, d.number,
      CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets t WHERE t.number = d.number AND t.shared)
        THEN NULL ELSE d.destinations END, {_HEADERS}
    FROM lrq_log_head h, lrq_sql_sets d WHERE d.client = NEW.client AND d.given = NEW.destinations);
  UPDATE lrq_log_head SET last_id = last_id + 1;
@inserts@
  UPDATE lrq_sql_written SET changes_total = total_changes() + 1;
END
"""  # noqa: S608 - constants
# Each connection parses the trigger when it opens the file, so the repeated statement is short.
_INSERT = """
  INSERT INTO lrq_log_entries_{slot}
    (id, transaction_id, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers)
  SELECT last_id, transaction_id, client, tag_set, destinations, NEW.item_key, NEW.partition_key, written_us,
    NEW.payload, headers FROM lrq_sql_written WHERE slot = {slot};"""


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
        sa.Column("slot", sa.SmallInteger(), nullable=True),
        sa.Column("tag_set", sa.BigInteger(), nullable=True),
        sa.Column("destinations", sa.Text(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("one", name="pk_lrq_sql_written"),
    )
    patterns = {
        "@outside@": f"*[^{_WORD}{_letters()}.-]*",
        "@jamo@": f"*[{_LEADS}][{_VOWELS}]*",
        "@syllable@": f"*[{_OPEN_SYLLABLES}][{_TAILS}]*",
    }
    # The cast of a pattern reads its bytes in the encoding of the file.
    printed = op.get_context().as_sql
    encoding = "UTF-8" if printed else op.get_bind().exec_driver_sql("PRAGMA encoding").scalar_one()
    rules = NAME_RULES
    for mark, pattern in patterns.items():
        rules = rules.replace(mark, pattern.encode(encoding).hex())
    inserts = "".join(_INSERT.format(slot=slot) for slot in SLOTS)
    for statement in (VIEW, TRANSMITTED, rules, TRIGGER.replace("@inserts@", inserts)):
        op.execute(statement)


def _drop_sqlite() -> None:
    if not op.get_context().as_sql:
        # Without the view they would fail each change of the followed tables.
        wanted = r"type = 'trigger' AND name LIKE 'lrq\_follow\_%' ESCAPE '\'"
        for name in op.get_bind().exec_driver_sql(f"SELECT name FROM sqlite_master WHERE {wanted}").scalars().all():  # noqa: S608
            quoted = name.replace('"', '""')
            op.execute(f'DROP TRIGGER "{quoted}"'.replace(":", "\\:"))
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
