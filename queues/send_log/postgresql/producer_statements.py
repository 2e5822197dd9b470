"""The statements that store the requests of producers on PostgreSQL."""

from collections.abc import Sequence
from typing import Final

from queues.database.postgresql.pipeline import Array, Request
from queues.send_log.postgresql.outbox import SLOT
from queues.send_log.producers import Production

# As `lrq_transmit` and the sender write it.
_TOKEN: Final = """
    SELECT s.site_id || '/' || %(client)s::text || '/' || s.branch || '/' || pg_current_xact_id()::text
      || CASE WHEN coalesce(b.timeline, '') IN ('', '0', now.timeline) THEN '' ELSE '/' || now.timeline END
    FROM lrq_site s
      LEFT JOIN LATERAL (
        SELECT split_part(incarnation, '/', 2) AS timeline FROM lrq_branches WHERE branch = s.branch) b ON true,
      LATERAL (SELECT lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) AS timeline) now
"""
_FIRST: Final = f"""
    INSERT INTO lrq_producers (client, producer, sequence, token, updated_us, process, first_sequence)
    VALUES (%(client)s::text, %(producer)s::text, %(sequence)s::bigint, ({_TOKEN}), %(now)s::bigint,
      %(process)s::bigint, %(first)s::bigint)
    ON CONFLICT (client, producer) DO NOTHING RETURNING token, process, first_sequence
"""  # noqa: S608 - constants
_NEXT: Final = f"""
    UPDATE lrq_producers SET sequence = %(sequence)s::bigint, token = ({_TOKEN}), updated_us = %(now)s::bigint,
      process = %(process)s::bigint,
      first_sequence = CASE WHEN process = %(process)s::bigint THEN first_sequence ELSE %(first)s::bigint END
    WHERE client = %(client)s::text AND producer = %(producer)s::text AND sequence = %(first)s::bigint - 1
      AND (process = %(process)s::bigint OR %(may_follow)s::boolean)
    RETURNING token, process, first_sequence
"""  # noqa: S608 - constants
_LAST: Final = """
    SELECT false, sequence, token, process, first_sequence FROM lrq_producers
    WHERE client = %(client)s::text AND producer = %(producer)s::text
"""
# The entries are written only if the producer's row has moved.
_WRITE: Final = f"""
    WITH moved AS ({{move}}),
    written AS (
      INSERT INTO lrq_log_entries
        (slot, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers)
      SELECT {SLOT}, %(client)s::text, n.tag_set,
        CASE WHEN n.tag_set = ANY(ARRAY(
          SELECT number FROM lrq_tag_sets WHERE shared AND number = ANY(%(sets)s::bigint[])))
        THEN NULL ELSE n.destinations END,
        n.item_key, n.partition_key, %(now)s::bigint, n.payload, n.headers
      FROM unnest(%(sets)s::bigint[], %(destinations)s::text[], %(item_keys)s::text[], %(partition_keys)s::text[],
        %(payloads)s::bytea[], %(headers)s::text[])
        AS n (tag_set, destinations, item_key, partition_key, payload, headers)
      WHERE EXISTS (SELECT 1 FROM moved))
    SELECT true, %(sequence)s::bigint, token, process, first_sequence FROM moved
    UNION ALL {_LAST} AND NOT EXISTS (SELECT 1 FROM moved)
"""  # noqa: S608 - constants
_WRITE_FIRST: Final = _WRITE.format(move=_FIRST)
_WRITE_NEXT: Final = _WRITE.format(move=_NEXT)


def asking(request: Production) -> Request:
    """Return the statement that asks for the last stored request of the producer."""
    return _LAST, request.key._asdict()


def writing_of(requests: Sequence[Production], created_us: int) -> Request:
    """Return the statement that stores *requests*, whose numbers follow each other, if the first one is the next."""
    first, last = requests[0], requests[-1]
    entries = [entry for request in requests for entry in request.entries]
    return (
        _WRITE_FIRST if first.sequence == 1 else _WRITE_NEXT,
        {
            **first.key._asdict(),
            "first": first.sequence,
            "sequence": last.sequence,
            "process": first.process,
            "may_follow": first.may_follow,
            "now": created_us,
            "sets": Array("bigint", [entry.destinations.number for entry in entries]),
            "destinations": Array("text", [entry.destinations.text for entry in entries]),
            "item_keys": Array("text", [entry.item_key for entry in entries]),
            "partition_keys": Array("text", [entry.partition_key for entry in entries]),
            "payloads": Array("bytea", [entry.payload for entry in entries]),
            "headers": Array("text", [entry.headers for entry in entries]),
        },
    )
