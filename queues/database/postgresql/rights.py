"""The rights that each part of an application needs on PostgreSQL, as statements. Pure.

Tests give roles exactly these rights, and take single rights away again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from queues.database.grantees import Grantee
from queues.database.tables import metadata, postgresql_metadata, views_metadata
from queues.database.tables.log import PARTITIONS
from queues.database.tables.ticks import TICK_PARTITIONS
from queues.errors import ConfigurationError
from queues.sql_names import literal, quoted

_READ: Final = "SELECT"
_UPSERT: Final = "SELECT, INSERT, UPDATE"
_ALL: Final = "SELECT, INSERT, UPDATE, DELETE"
_VERSION: Final = "lrq_alembic_version"

#: A sender may not read the payloads of the log, which several applications may share.
_SENDER: Final[Mapping[str, str]] = {
    "lrq_site": _READ,
    "lrq_branches": _READ,
    "lrq_known_sites": _READ,
    "lrq_replicas": _READ,
    "lrq_active_members": _READ,
    "lrq_told_members": _READ,
    "lrq_link_wishes": _READ,
    "lrq_link_changes": _READ,
    "lrq_tag_sets": _READ,
    "lrq_ticks": _READ,
    "lrq_sessions": _READ,
    # Of the base of a snapshot, while the log has no tick.
    "lrq_log_head": "SELECT (trimmed_seq)",
    "lrq_log_entries": "INSERT, SELECT (slot, xid, destinations)",
    "lrq_log_commits": _READ,
    "lrq_leases": _UPSERT,
    "lrq_snapshots": _UPSERT,
    "lrq_snapshot_providers": _UPSERT,
    "lrq_snapshot_parts": "SELECT, INSERT",
    "lrq_snapshot_blocks": "SELECT, INSERT, DELETE",
    "lrq_producers": _UPSERT,
    "lrq_log_staging": _ALL,
    "lrq_log_staged_blocks": "SELECT, INSERT, DELETE",
    _VERSION: _READ,
}
_SUBSCRIBER: Final[Mapping[str, str]] = {
    "lrq_site": _READ,
    "lrq_branches": _READ,
    "lrq_known_sites": _READ,
    "lrq_replicas": _READ,
    "lrq_active_members": _READ,
    "lrq_told_members": _READ,
    "lrq_link_wishes": _READ,
    "lrq_log_head": _READ,
    "lrq_tag_sets": _READ,
    "lrq_tag_set_members": _READ,
    "lrq_ticks": _READ,
    "lrq_sessions": _READ,
    # The status of a site that also sends measures its payloads.
    "lrq_log_entries": _READ,
    "lrq_log_commits": _READ,
    "lrq_dropped_entries": _READ,
    "lrq_unordered": _READ,
    "lrq_snapshots": _READ,
    "lrq_snapshot_providers": _READ,
    "lrq_leases": _UPSERT,
    "lrq_servers": _READ,
    "lrq_ranges": _READ,
    # A column, so that the row can be locked but not renamed.
    "lrq_receive_queues": "SELECT, UPDATE (registered_us)",
    "lrq_receive_marks": _READ,
    "lrq_receive_headers": _READ,
    "lrq_receive_branches": _READ,
    "lrq_receive_blocks": "SELECT, DELETE",
    "lrq_receive_snapshot_blocks": "SELECT, DELETE",
    "lrq_consumers": _UPSERT,
    "lrq_consumer_failures": _ALL,
    "lrq_shard_maps": _ALL,
    "lrq_shard_changes": _ALL,
    "lrq_shard_marks": _ALL,
    "lrq_shard_failures": _ALL,
    "lrq_shard_members": _ALL,
    "lrq_replays": _READ,
    "lrq_resends": _READ,
    "lrq_parked_entries": _ALL,
    "lrq_actions": "SELECT, INSERT, DELETE",
    _VERSION: _READ,
}


def _of_server() -> dict[str, str]:
    """Return every right on rows: a server reads, moves and trims them, also in partitions of their own."""
    names = [table.name for each in (metadata, postgresql_metadata) for table in each.sorted_tables]
    for table, number in (
        ("lrq_log_entries", PARTITIONS),
        ("lrq_log_commits", PARTITIONS),
        ("lrq_ticks", TICK_PARTITIONS),
    ):
        names += [f"{table}_{slot}" for slot in range(number)]
    return {**dict.fromkeys(names, f"{_ALL}, TRUNCATE"), _VERSION: _READ}


_TABLES: Final[Mapping[Grantee, Mapping[str, str]]] = {
    Grantee.SENDER: _SENDER,
    Grantee.SUBSCRIBER: _SUBSCRIBER,
    Grantee.SERVER: _of_server(),
    Grantee.MONITOR: {table.name: _READ for table in views_metadata.sorted_tables},
}
_SEQUENCES: Final[Mapping[Grantee, Mapping[str, str]]] = {
    Grantee.SENDER: {"lrq_log_segment": _READ, "lrq_link_change": _READ},
    Grantee.SUBSCRIBER: {"lrq_parked_entries_id_seq": "USAGE"},
    Grantee.SERVER: {
        "lrq_log_segment": f"{_READ}, UPDATE",
        "lrq_commit_seq": f"{_READ}, USAGE",
        "lrq_link_change": f"{_READ}, UPDATE",
        "lrq_parked_entries_id_seq": "USAGE",
        "lrq_receive_queues_queue_id_seq": "USAGE",
    },
    Grantee.MONITOR: {},
}
#: Functions that transmit. The places of commits are written with the rights of the tables' owner.
_FUNCTIONS: Final[Mapping[Grantee, tuple[str, ...]]] = {
    Grantee.SENDER: ("lrq_transmit", "lrq_check_links"),
    Grantee.SUBSCRIBER: (),
    Grantee.SERVER: ("lrq_transmit", "lrq_check_links"),
    Grantee.MONITOR: (),
}


def statements(role: str, part: Grantee, schema: str | None, *, search_path: bool) -> list[str]:
    """Return the GRANT statements; see `queues.database.setup_port.Setup.grants`."""
    if search_path and schema is None:
        raise ConfigurationError("--search-path needs the schema of the tables: set `schema`")
    prefix = "" if schema is None else f"{quoted(schema)}."
    made = [] if schema is None else [f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)}"]
    made += _grants("TABLE", _TABLES[part], prefix, role)
    made += _grants("SEQUENCE", _SEQUENCES[part], prefix, role)
    if _FUNCTIONS[part]:
        made.append(_functions(_FUNCTIONS[part], prefix, role))
    if part is Grantee.SERVER:
        made.append(_sight_of_standbys(role))
    if search_path and schema is not None:
        made.append(_extended_path(role, schema))
    return made


def _grants(kind: str, granted: Mapping[str, str], prefix: str, role: str) -> Iterable[str]:
    by_privileges: dict[str, list[str]] = {}
    for name, privileges in granted.items():
        by_privileges.setdefault(privileges, []).append(prefix + name)
    for privileges, names in by_privileges.items():
        yield f"GRANT {privileges} ON {kind} {', '.join(names)} TO {quoted(role)}"


def _functions(names: tuple[str, ...], prefix: str, role: str) -> str:
    listed = ", ".join(literal(name) for name in names)
    site = literal(f"{prefix}lrq_site")
    # A loop, because the statement then need not repeat the types of the arguments.
    return (
        "DO $grant$ DECLARE found regprocedure; BEGIN FOR found IN SELECT p.oid FROM pg_proc p JOIN pg_class c "  # noqa: S608
        f"ON c.relnamespace = p.pronamespace WHERE c.oid = to_regclass({site}) AND p.proname IN ({listed}) LOOP "
        f"EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', found, {literal(role)}); END LOOP; END $grant$"
    )


def _sight_of_standbys(role: str) -> str:
    """Return a statement that lets *role* see standby servers where commits wait for some, if the caller may."""
    return (
        "DO $stats$ BEGIN IF current_setting('synchronous_standby_names') <> '' AND NOT "
        f"pg_has_role({literal(role)}, 'pg_read_all_stats', 'USAGE') THEN GRANT pg_read_all_stats TO {quoted(role)}; "
        "END IF; EXCEPTION WHEN insufficient_privilege THEN RAISE WARNING 'only a superuser can GRANT "
        "pg_read_all_stats, without which a server does not see its standby servers'; END $stats$"
    )


def _extended_path(role: str, schema: str) -> str:
    """Return a statement that appends *schema* to the search path that new connections of *role* have here."""
    # Of several settings, that of the role in the database comes first, then the role's, then the database's.
    return (
        "DO $path$ DECLARE path text; BEGIN SELECT split_part(c, '=', 2) INTO path FROM pg_db_role_setting s, "  # noqa: S608
        "unnest(setconfig) c WHERE c LIKE 'search_path=%' AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = "
        f"{literal(role)})) AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) "
        "ORDER BY setrole <> 0 DESC, setdatabase <> 0 DESC LIMIT 1; "
        "path := coalesce(nullif(path, ''), '\"$user\", public'); "
        f"IF quote_ident({literal(schema)}) NOT IN (SELECT trim(x) FROM unnest(string_to_array(path, ',')) x) THEN "
        "EXECUTE format("
        f"'ALTER ROLE %I IN DATABASE %I SET search_path = %s', {literal(role)}, current_database(), "
        f"path || ', ' || {literal(quoted(schema))}); END IF; END $path$"
    )
