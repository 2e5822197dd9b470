"""The destinations that the entries of each client name, from the dictionary of destination sets."""

from typing import Final

from sqlalchemy import Connection, text

from queues.send_log.port import SessionKey, keys_of

_FOLLOWING: Final = (
    "(SELECT min(m.destination) FROM lrq_tag_set_members m WHERE m.client = n.client AND m.destination > n.destination)"
)
_NEXT_CLIENT: Final = "(SELECT min(m.client) FROM lrq_tag_set_members m WHERE m.client > n.client)"
# Each step finds the next pair in the index. So the cost grows with the pairs, not with the sets that name them.
#: Selects the pairs, for sending with other statements.
READ_NAMED: Final = text(f"""
    WITH RECURSIVE named (client, destination) AS (
      SELECT client, destination
      FROM (SELECT client, destination FROM lrq_tag_set_members ORDER BY client, destination LIMIT 1) AS first_pair
      UNION ALL
      SELECT CASE WHEN {_FOLLOWING} IS NULL THEN {_NEXT_CLIENT} ELSE n.client END,
        coalesce({_FOLLOWING},
          (SELECT min(o.destination) FROM lrq_tag_set_members o WHERE o.client = {_NEXT_CLIENT}))
      FROM named n WHERE n.client IS NOT NULL
    )
    SELECT client, destination FROM named WHERE client IS NOT NULL
""")  # noqa: S608 - constants


def named_sites(connection: Connection) -> list[SessionKey]:
    """Return each client with each destination that one of its entries in a tick names.

    A set that may be used again is never forgotten, so its destinations stay.
    """
    return keys_of(connection.execute(READ_NAMED).all())
