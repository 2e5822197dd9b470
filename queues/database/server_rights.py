"""The rights that a server's role needs in PostgreSQL, and those that the present role lacks."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, text

from queues.database import dialects
from queues.database.tables.log import PARTITIONS
from queues.database.tables.rewritten import REWRITTEN, REWRITTEN_UNKEPT
from queues.database.tables.ticks import TICK_PARTITIONS

_READ: Final = ("SELECT",)
_APPEND: Final = ("SELECT", "INSERT")
_CHANGE: Final = ("SELECT", "UPDATE")
_KEEP: Final = ("SELECT", "INSERT", "UPDATE")
_EMPTY: Final = ("SELECT", "TRUNCATE")
_ALL: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_PARTITIONED: Final = (
    ("lrq_log_entries", PARTITIONS, _EMPTY),
    ("lrq_log_commits", PARTITIONS, _EMPTY),
    ("lrq_ticks", TICK_PARTITIONS, (*_APPEND, "TRUNCATE")),
)

#: The rights of a server at each table, source and sink alike. Partitions and sequences follow below.
SERVER_RIGHTS: Final = {
    "lrq_alembic_version": _READ,
    "lrq_site": _CHANGE,
    "lrq_branches": _APPEND,
    "lrq_log_head": _CHANGE,
    "lrq_log_entries": ("SELECT", "DELETE"),
    "lrq_log_commits": ("SELECT", "DELETE"),
    "lrq_unordered": _ALL,
    "lrq_tag_sets": _ALL,
    "lrq_tag_set_members": ("SELECT", "INSERT", "DELETE"),
    "lrq_ticks": ("SELECT", "INSERT", "DELETE"),
    "lrq_sessions": _KEEP,
    "lrq_link_wishes": ("SELECT", "UPDATE", "DELETE"),
    "lrq_link_changes": _CHANGE,
    "lrq_known_sites": _KEEP,
    "lrq_replicas": ("SELECT", "INSERT", "DELETE"),
    "lrq_active_members": _ALL,
    "lrq_dropped_entries": _KEEP,
    "lrq_strangers": _APPEND,
    "lrq_snapshots": _ALL,
    "lrq_snapshot_parts": ("SELECT", "DELETE"),
    "lrq_snapshot_blocks": ("SELECT", "DELETE"),
    "lrq_snapshot_providers": _APPEND,
    "lrq_leases": _KEEP,
    "lrq_servers": _ALL,
    "lrq_ranges": _ALL,
    "lrq_peers": _READ,
    "lrq_peer_replicas": _READ,
    "lrq_peers_version": _READ,
    "lrq_generations": _KEEP,
    "lrq_producers": _ALL,
    "lrq_log_staging": ("SELECT", "DELETE"),
    "lrq_log_staged_blocks": ("SELECT", "DELETE"),
    "lrq_receive_queues": _APPEND,
    "lrq_receive_marks": _ALL,
    "lrq_receive_headers": ("SELECT", "INSERT", "DELETE"),
    "lrq_receive_branches": ("SELECT", "INSERT", "DELETE"),
    "lrq_told_members": _ALL,
    "lrq_receive_blocks": _ALL,
    "lrq_receive_snapshot_blocks": ("SELECT", "INSERT", "DELETE"),
    "lrq_consumers": _ALL,
    "lrq_consumer_failures": ("SELECT", "DELETE"),
    "lrq_shard_maps": _READ,
    "lrq_shard_changes": ("SELECT", "UPDATE", "DELETE"),
    "lrq_shard_marks": _CHANGE,
    "lrq_shard_failures": _READ,
    "lrq_parked_entries": ("SELECT", "DELETE"),
    "lrq_replays": _CHANGE,
    "lrq_resends": _READ,
    "lrq_actions": ("SELECT", "INSERT", "DELETE"),
}
#: The rights at sequences.
SERVER_SEQUENCES: Final = {
    "lrq_log_segment": ("SELECT", "UPDATE"),
    "lrq_commit_seq": ("SELECT",),
    "lrq_link_change": ("SELECT", "UPDATE"),
    "lrq_receive_queues_queue_id_seq": ("USAGE",),
}


def table_rights() -> Iterator[tuple[str, str]]:
    """Yield each table with each right that a server needs there: `("lrq_leases", "UPDATE")`."""
    yield from ((table, right) for table, rights in SERVER_RIGHTS.items() for right in rights)
    yield from (
        (f"{table}_{slot}", right) for table, slots, rights in _PARTITIONED for slot in range(slots) for right in rights
    )
    yield from ((table.name, "TRUNCATE") for table in (*REWRITTEN, *REWRITTEN_UNKEPT))


def missing_rights(connection: Connection) -> list[str]:
    """Return the rights that a server lacks with the role of *connection*, as `UPDATE on lrq_leases`; none on SQLite.

    Objects that do not exist are left out.
    """
    if dialects.of(connection).one_writer:
        return []
    sequences = ((name, right) for name, rights in SERVER_SEQUENCES.items() for right in rights)
    return [
        *(f"{right} on {name}" for name, right in table_rights() if _lacks(connection, _TABLE, name, right)),
        *(f"{right} on {name}" for name, right in sequences if _lacks(connection, _SEQUENCE, name, right)),
    ]


_TABLE: Final = text(
    "SELECT to_regclass(:name) IS NOT NULL AND NOT has_table_privilege(to_regclass(:name), :privilege)"
)
_SEQUENCE: Final = text(
    "SELECT to_regclass(:name) IS NOT NULL AND NOT has_sequence_privilege(to_regclass(:name), :privilege)"
)


def powerless_functions(connection: Connection) -> list[str]:
    """Return the functions of lrq whose owner lacks the rights of the tables' owner, with which they run.

    `ALTER TABLE … OWNER TO` leaves the functions with the owner of before. None on SQLite.
    """
    return [] if dialects.of(connection).one_writer else list(connection.execute(_POWERLESS).scalars())


_POWERLESS: Final = text(
    "SELECT proname FROM pg_proc JOIN pg_class ON relnamespace = pronamespace"
    r" WHERE pg_class.oid = to_regclass('lrq_site') AND prosecdef AND proname LIKE 'lrq\_%'"
    " AND NOT pg_has_role(proowner, relowner, 'USAGE')"
    " ORDER BY proname"
)


def _lacks(connection: Connection, question: object, name: str, right: str) -> bool:
    return bool(connection.execute(question, {"name": name, "privilege": right}).scalar_one())  # type: ignore[call-overload]
