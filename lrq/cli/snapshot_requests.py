"""List requests for snapshots, and follow them until they are finished."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import Connection, Engine

from discovery.snapshot_reads import snapshot_status
from discovery.snapshot_status import SnapshotStatus
from lrq.cli.output import add, table
from lrq.cli.views.status_tables import owner_words, snapshot_cells
from lrq.cli.words import one_line
from queues import send_snapshot
from queues.clock import iso, now_us
from queues.database.transactions import reading
from queues.errors import SetupError, UsageError
from queues.names import ClientName, client_name
from queues.send_log.reads import clients_seen
from queues.send_log.replica_members import read_groups
from queues.send_log.sessions import sessions_of
from queues.send_snapshot import EVERY_SITE, Provider, SnapshotState, SnapshotSync


def known_clients(engine: Engine) -> list[str]:
    """Return the clients that have transmitted, or offer snapshots, at this site."""
    with reading(engine) as connection:
        offering = [provider.client for provider in send_snapshot.providers(connection)]
        return sorted({*offering, *clients_seen(connection)})


def listing(engine: Engine, client: str | None, limit: int) -> list[SnapshotStatus]:
    """Return the newest requests, newest first."""
    with reading(engine) as connection:
        found = send_snapshot.listing(connection, None if client is None else client_name(client), limit=limit)
    return [snapshot_status(each) for each in found]


def provider_listing(engine: Engine) -> list[Provider]:
    """Return the latest snapshot provider of each client at this site."""
    with reading(engine) as connection:
        return send_snapshot.providers(connection)


def no_provider(engine: Engine, client: str) -> str | None:
    """Return the sentence for a request while no provider of *client* runs; None while one runs.

    A role that may not read the providers gets no sentence.
    """
    try:
        found = provider_listing(engine)
    except SetupError:
        return None
    if any(each.alive for each in found if each.client == client):
        return None
    return f"no provider of client {client} is running, so the request waits: start one (`lrq provide`)"


def provider_json(found: Provider) -> dict[str, Any]:
    """Return an item of `providers` in `lrq snapshot list --json`."""
    return {"client": found.client, "owner": found.owner, "alive": found.alive, "seen_at": iso(found.seen_us)}


def request_status(engine: Engine, sync_id: str) -> SnapshotStatus | None:
    """Return the status of one request; None for an unknown or forgotten one."""
    with reading(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
    return None if found is None else snapshot_status(found)


def listing_view(found: Sequence[SnapshotStatus], providers: Sequence[Provider]) -> RenderableType:
    """Show requests in a table, with the providers below."""
    made = table(
        "Snapshots", "id", "client", "to", "state", ("rows", "right"), ("bytes", "right"), ("try", "right"),
        ("asked", "right"), ("", "fold"),
    )  # fmt: skip
    at_us = now_us()
    for each in found:
        add(made, [Text(each.sync_id[:8], style="dim"), *snapshot_cells(each, at_us)])
    lines = [
        Text.assemble(
            ("● ", "green") if each.alive else ("○ ", "red"),
            f"provider of {each.client}: ",
            owner_words(each.owner) if each.alive else f"none now, the last one was seen at {iso(each.seen_us)}",
        )
        for each in providers
    ]
    if not lines:
        lines = [Text("○ no client offers snapshots here", style="dim")]
    return Group(made if found else Text("no snapshot was requested yet"), *lines)


@dataclass(frozen=True, slots=True)
class FollowOutcome:
    """The followed requests at one moment; `gone` is the sentence for a request that has become none."""

    snapshots: tuple[SnapshotSync, ...]
    timed_out: bool = False
    sessions: Mapping[str, str] = field(default_factory=dict)
    gone: str = ""

    @property
    def finished(self) -> bool:
        """Whether every request is finished."""
        return bool(self.gone or self.snapshots) and all(each.finished for each in self.snapshots)

    @property
    def applied(self) -> bool:
        """Whether every request is applied."""
        return bool(self.snapshots) and all(each.state is SnapshotState.APPLIED for each in self.snapshots)

    def words(self) -> str:
        """Return one clause for each request that is not applied, with the error."""
        late = " at the timeout" if self.timed_out else ""
        return self.gone or "; ".join(
            f"the snapshot of {each.client} for {'every site' if each.destination == EVERY_SITE else each.destination} "
            f"is {each.state.value}{late}{': ' + one_line(each.error) if each.error else ''}"
            for each in self.snapshots
            if each.state is not SnapshotState.APPLIED
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq snapshot watch --json`."""
        return {
            "applied": self.applied,
            "timed_out": self.timed_out,
            "snapshots": [snapshot_status(each).as_json() for each in self.snapshots],
        }


class Follow:
    """Reads one request repeatedly; the server divides a request for every site, or for a group, among the sites."""

    def __init__(self, engine: Engine, sync_id: str) -> None:
        """Raise `UsageError` when there is no such request."""
        self._engine = engine
        with reading(engine) as connection:
            self._asked = _find(connection, sync_id)

    def look(self) -> FollowOutcome:
        """Return the request, or the requests that replaced it."""
        with reading(self._engine, snapshot=True) as connection:
            mine = send_snapshot.find(connection, self._asked.sync_id)
            followed = [mine] if mine is not None else _expanded(connection, self._asked)
            gone = "" if followed else _gone(self._asked)
            return FollowOutcome(tuple(followed), sessions=_session_words(connection, self._asked.client), gone=gone)


def _find(connection: Connection, sync_id: str) -> SnapshotSync:
    found = send_snapshot.find(connection, sync_id)
    if found is not None:
        return found
    near = [each for each in send_snapshot.listing(connection, limit=1_000) if each.sync_id.startswith(sync_id)]
    if len(near) != 1:
        raise UsageError(f"there is no snapshot {sync_id!r}: `lrq snapshot list` shows the requests")
    return near[0]


def _expanded(connection: Connection, asked: SnapshotSync) -> list[SnapshotSync]:
    """Return the newest request since *asked* of each site for which *asked* was."""
    is_for_all = asked.destination == EVERY_SITE
    members = read_groups(connection).get(asked.destination, ())
    newest: dict[str, SnapshotSync] = {}
    for each in send_snapshot.listing(connection, asked.client, limit=1_000):
        is_of_asked = each.destination != EVERY_SITE if is_for_all else each.destination in members
        if each.requested_us >= asked.requested_us and is_of_asked:
            newest.setdefault(each.destination, each)
    return sorted(newest.values(), key=lambda each: each.destination)


def _gone(asked: SnapshotSync) -> str:
    if asked.destination == EVERY_SITE:
        return f"no site gets a snapshot of {asked.client}: the server knows no peer with a link of this client"
    return (
        f"the request for {asked.destination} is gone, because its link or group was removed: "
        "`lrq snapshot list` shows the others"
    )


def _session_words(connection: Connection, client: ClientName) -> dict[str, str]:
    rows = sessions_of(connection, client)
    return {row.destination: f"{row.state}: {row.reason}" if row.reason else row.state.value for row in rows}
