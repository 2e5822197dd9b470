"""The source's record of its sessions: one row each, with the state and the acknowledged position.

The sink's receive state is the truth. The rows serve status, `wait_replicated` and trimming.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update

from queues.clock import now_us
from queues.database.tables.sessions import sessions
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.states import STORED_INACTIVE, SessionState
from queues.words import cleaned


class SessionRow(NamedTuple):
    """One row. `lost_seq` is the end of the newest trimmed tick with unacknowledged entries for the session.

    `replaced_total` counts entries that were not sent, because a later entry of the same tick replaced them.
    The subscriber has applied the log up to `applied_seq`; None while unknown.
    The session tells its sink the generation of its range, plus `lead`. `window_percent` of its window is in use.
    """

    client: ClientName
    destination: SiteId
    state: SessionState
    reason: str
    branch: str
    acked_seq: int
    cut: str
    lost_seq: int
    transferred_rows: int
    updated_us: int
    applied_seq: int | None
    replaced_total: int
    lead: int
    window_percent: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """New values of one row; with None, the acknowledged or the applied position stays."""

    key: SessionKey
    state: SessionState
    reason: str
    transferred_rows: int
    acked: Position | None
    applied_seq: int | None = None
    replaced_total: int = 0
    window_percent: int = 0


def find_session(connection: Connection, key: SessionKey) -> SessionRow | None:
    """Return the row of one session."""
    row = connection.execute(select(*_COLUMNS).where(*_own(key))).first()
    return None if row is None else _session_row(row)


def every_session(connection: Connection) -> list[SessionRow]:
    """Return all rows in the order of destination and client."""
    ordered = select(*_COLUMNS).order_by(sessions.c.destination, sessions.c.client)
    return [_session_row(row) for row in connection.execute(ordered)]


def sessions_of(
    connection: Connection, client: ClientName, destinations: Collection[SiteId] | None = None
) -> list[SessionRow]:
    """Return the rows of *client*, for *destinations* or (None) for all."""
    chosen = select(*_COLUMNS).where(sessions.c.client == client)
    if destinations is not None:
        chosen = chosen.where(sessions.c.destination.in_(destinations))
    return [_session_row(row) for row in connection.execute(chosen)]


def every_key(connection: Connection) -> list[SessionKey]:
    """Return all sessions by client and destination."""
    return [SessionKey(*row) for row in connection.execute(select(*_KEY).order_by(*_KEY))]


def active_keys(connection: Connection) -> list[SessionKey]:
    """Return the sessions that are not inactive, by client and destination."""
    chosen = select(*_KEY).where(sessions.c.state.not_in(STORED_INACTIVE)).order_by(*_KEY)
    return [SessionKey(*row) for row in connection.execute(chosen)]


def add_session(
    connection: Connection, key: SessionKey, state: SessionState, reason: str, *, lost_seq: int = 0
) -> None:
    """Insert the row of a session that has acknowledged nothing, and that may have lost entries up to *lost_seq*."""
    row = SessionRow(*key, state, reason, "", 0, "", lost_seq, 0, now_us(), None, 0, 0, 0)
    connection.execute(insert(sessions).values(row._asdict()))


def touch_session(connection: Connection, key: SessionKey) -> None:
    """Set the time of a row to now, as the smallest change that a database commits."""
    connection.execute(update(sessions).where(*_own(key)).values(updated_us=now_us()))


def stored_fence(connection: Connection, key: SessionKey) -> tuple[int, int, int]:
    """Return the session's lead over the lease's generation, the number of its leaps, and the time of the last one."""
    row = connection.execute(select(*_FENCE).where(*_own(key))).first()
    return (0, 0, 0) if row is None else (row.lead, row.leaps, row.leaped_us)


def replace_fence(
    connection: Connection, key: SessionKey, seen: tuple[int, int, int], fence: tuple[int, int, int]
) -> bool:
    """Replace the fence of a session if it is still *seen*; return whether it was."""
    unchanged = [column == value for column, value in zip(_FENCE, seen, strict=True)]
    values = dict(zip((column.name for column in _FENCE), fence, strict=True))
    return connection.execute(update(sessions).where(*_own(key), *unchanged).values(values)).rowcount > 0


def set_state(connection: Connection, key: SessionKey, state: SessionState, reason: str) -> None:
    """Change the state of one row whose session does not work, so its window is empty."""
    values = {"state": state, "reason": cleaned(reason), "window_percent": 0, "updated_us": now_us()}
    connection.execute(update(sessions).where(*_own(key)).values(values))


def go_back(connection: Connection, key: SessionKey, position: Position) -> None:
    """Store that a session has acknowledged exactly up to *position*, so that trim keeps later entries."""
    own = {"of_client": key.client, "of_destination": key.destination}
    connection.execute(_LOSE, {"now_acked": position.seq, **own})
    values = {"branch": position.branch, "acked_seq": position.seq, "cut": position.cut, "updated_us": now_us()}
    connection.execute(update(sessions).where(*_own(key)).values(values))


def save_sessions(connection: Connection, changes: Iterable[SessionChange]) -> None:
    """Change many rows, in the same order in which trimming locks them, so that no deadlock occurs."""
    ordered = [_values(change) for change in sorted(changes, key=attrgetter("key"))]
    for _, alike in groupby(ordered, key=len):  # one statement sets the same columns in all rows
        rows = list(alike)
        if "acked_seq" in rows[0]:
            connection.execute(_LOSE, [{"now_acked": row["acked_seq"], **_bound(row)} for row in rows])
        connection.execute(_SAVE, rows)


def _session_row(row: Row[Any]) -> SessionRow:
    return SessionRow._make(row)._replace(state=SessionState(row.state))


def _values(change: SessionChange) -> dict[str, object]:
    values: dict[str, object] = {
        "of_client": change.key.client,
        "of_destination": change.key.destination,
        "state": change.state,
        "reason": cleaned(change.reason),
        "transferred_rows": change.transferred_rows,
        "replaced_total": change.replaced_total,
        "window_percent": change.window_percent,
        "updated_us": now_us(),
    }
    if change.acked is not None:
        values |= {"branch": change.acked.branch, "acked_seq": change.acked.seq, "cut": change.acked.cut}
    if change.applied_seq is not None:
        values["applied_seq"] = change.applied_seq
    return values


def _bound(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in ("of_client", "of_destination")}


def _own(key: SessionKey) -> tuple[ColumnElement[bool], ...]:
    return sessions.c.client == key.client, sessions.c.destination == key.destination


_COLUMNS = tuple(sessions.c[name] for name in SessionRow._fields)
_KEY = (sessions.c.client, sessions.c.destination)
_FENCE = (sessions.c.lead, sessions.c.leaps, sessions.c.leaped_us)
_SAVE = update(sessions).where(
    sessions.c.client == bindparam("of_client"), sessions.c.destination == bindparam("of_destination")
)
# A session may go back, for example to a snapshot's base. Trimming ignored its acknowledged entries until now.
_LOSE = _SAVE.where(sessions.c.acked_seq > bindparam("now_acked"), sessions.c.acked_seq > sessions.c.lost_seq).values(
    lost_seq=sessions.c.acked_seq
)
