"""The actions of operators on a site, stored beside the rows that they change."""

import uuid
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, select

from queues.clock import now_us
from queues.database.tables.actions import actions
from queues.database.transactions import reading
from queues.words import cleaned

#: The number of actions that a site keeps.
KEPT: Final = 10_000


class StoredAction(NamedTuple):
    """An action with its time, its person and its outcome in words; `action` is its short name, such as `discard`."""

    at_us: int
    person: str
    action: str
    outcome: str


def note(connection: Connection, person: str, action: str, outcome: str) -> None:
    """Store an action in the transaction of its changes, and delete the oldest actions beyond `KEPT`."""
    values = {"person": cleaned(person), "action": action, "outcome": cleaned(outcome)}
    connection.execute(insert(actions).values(action_id=uuid.uuid4().hex, at_us=now_us(), **values))
    newer = select(actions.c.at_us).order_by(actions.c.at_us.desc()).offset(KEPT - 1).limit(1).scalar_subquery()
    connection.execute(delete(actions).where(actions.c.at_us < newer))


def newest(engine: Engine, limit: int = 100) -> list[StoredAction]:
    """Return the newest actions, newest first."""
    columns = (actions.c[name] for name in StoredAction._fields)
    ordered = select(*columns).order_by(actions.c.at_us.desc(), actions.c.action_id).limit(limit)
    with reading(engine) as connection:
        return [StoredAction(*row) for row in connection.execute(ordered)]
