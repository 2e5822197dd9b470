"""What the database keeps of the sessions: for status, for `wait_replicated`, and for what trim may let go."""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Engine, bindparam, select, update

from lr_server.states import LEFT_OUT, Standing
from queues import leases
from queues.clock import now_us
from queues.leases import Lease
from queues.log.port import Owed
from queues.names import ClientName, SiteId
from queues.tables import sessions
from queues.transactions import reading, writing


def ensure(engine: Engine, owed: Owed) -> None:
    """Make the session known before it begins, so that what it is owed is kept for it."""
    mine = sessions.c.client == owed.client, sessions.c.destination == owed.destination
    with reading(engine) as connection:
        if connection.execute(select(sessions.c.client).where(*mine)).first() is not None:
            return
    with writing(engine) as connection:
        if connection.execute(select(sessions.c.client).where(*mine)).first() is None:
            connection.execute(
                sessions.insert().values(
                    client=owed.client, destination=owed.destination, state="idle", reason="not started", branch="",
                    acked_seq=0, cut="", lost_seq=0, transferred_rows=0, updated_us=now_us(),
                )
            )  # fmt: skip


def touch(engine: Engine, owed: Owed) -> None:
    """Commit something durably."""
    mine = sessions.c.client == owed.client, sessions.c.destination == owed.destination
    with writing(engine) as connection:
        connection.execute(update(sessions).where(*mine).values(updated_us=now_us()))


def save(engine: Engine, lease: Lease, standings: Iterable[tuple[Owed, Standing]]) -> None:
    """Write how the sessions stand, in one transaction; raise `OwnershipLostError` when they are another server's."""
    with writing(engine) as connection:
        leases.check(connection, lease)
        # In the order in which trimming has them too: two transactions must not wait for each other.
        ordered = [_values(owed, standing) for owed, standing in sorted(standings, key=itemgetter(0))]
        for _, alike in groupby(ordered, key=len):  # a statement sets the same columns of every row
            rows = list(alike)
            if "acked_seq" in rows[0]:
                connection.execute(_LOSE, [{"now_acked": row["acked_seq"], **_of(row)} for row in rows])
            connection.execute(_SAVE, rows)


def _of(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in ("of_client", "of_destination")}


def leave_out(engine: Engine, lease: Lease, peers: Collection[SiteId], clients: Collection[ClientName]) -> None:
    """Say of the sessions with other destinations than *peers*, or of others than *clients*, that nobody runs them.

    No *clients* are any. Raises the errors of `save`.
    """
    with writing(engine) as connection:
        leases.check(connection, lease)
        known = select(sessions.c.client, sessions.c.destination).where(sessions.c.state != LEFT_OUT)
        for client, destination in connection.execute(known.order_by(*_KEY)).all():
            if destination not in peers:
                reason = "the site is not among the peers of the server"
            elif clients and client not in clients:
                reason = "it is not among the clients of the server"
            else:
                continue
            mine = sessions.c.client == client, sessions.c.destination == destination
            values = {"state": LEFT_OUT, "reason": reason, "updated_us": now_us()}
            connection.execute(update(sessions).where(*mine).values(values))


def _values(owed: Owed, standing: Standing) -> dict[str, object]:
    rows = standing.transferred_rows
    values: dict[str, object] = {
        "of_client": owed.client,
        "of_destination": owed.destination,
        "state": standing.words.name,
        "reason": f"{standing.words.detail} ({rows:,} rows sent)" if rows else standing.words.detail,
        "transferred_rows": rows,
        "updated_us": now_us(),
    }
    if standing.acked is not None:
        acked = standing.acked
        values |= {"branch": acked.branch, "acked_seq": acked.seq, "cut": acked.cut}
    return values


_KEY = (sessions.c.client, sessions.c.destination)
_SAVE = update(sessions).where(
    sessions.c.client == bindparam("of_client"), sessions.c.destination == bindparam("of_destination")
)
# Who goes back, to a snapshot's base for instance, had no claim meanwhile on what it had acknowledged.
_LOSE = _SAVE.where(sessions.c.acked_seq > bindparam("now_acked"), sessions.c.acked_seq > sessions.c.lost_seq).values(
    lost_seq=sessions.c.acked_seq
)
