"""Following requests for snapshots until nothing more will happen to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import Connection, Engine, select

from lr_server.status import snapshot_facts
from lrq_cli.output import add, table
from lrq_cli.status_tables import owner_words, snapshot_cells
from lrq_cli.words import one_line
from queues import snapshots
from queues.clock import iso, now_us
from queues.errors import UsageError
from queues.log.sql import clients_seen
from queues.names import ClientName, client_name
from queues.snapshots import EVERY_SITE, Snapshot, SnapshotState
from queues.tables import sessions
from queues.transactions import reading

Facts = Mapping[str, Any]


def known_clients(engine: Engine) -> list[str]:
    """Return the clients that have transmitted, or offer snapshots, at this site."""
    with reading(engine) as connection:
        offering = [provider.client for provider in snapshots.providers(connection)]
        return sorted({*offering, *clients_seen(connection)})


def listing(engine: Engine, client: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the newest requests, newest first."""
    with reading(engine) as connection:
        found = snapshots.listing(connection, None if client is None else client_name(client), limit=limit)
    return [snapshot_facts(each) for each in found]


def provider_facts(engine: Engine) -> list[dict[str, Any]]:
    """Return who provides snapshots here, or did last."""
    with reading(engine) as connection:
        found = snapshots.providers(connection)
    return [
        {"client": each.client, "owner": each.owner, "alive": each.alive, "seen_at": iso(each.seen_us)}
        for each in found
    ]


def request_facts(engine: Engine, sync_id: str) -> dict[str, Any]:
    """Return one request."""
    with reading(engine) as connection:
        found = snapshots.find(connection, sync_id)
    return snapshot_facts(found) if found is not None else {"sync_id": sync_id}


def listing_view(found: Sequence[Facts], providers: Sequence[Facts]) -> RenderableType:
    """Show requests in a table, with the providers below."""
    made = table(
        "Snapshots", "id", "client", "to", "state", ("rows", "right"), ("bytes", "right"), ("try", "right"),
        ("asked", "right"), ("", "fold"),
    )  # fmt: skip
    at = iso(now_us())
    for each in found:
        add(made, [Text(each["sync_id"][:8], style="dim"), *snapshot_cells(each, at)])
    lines = [
        Text.assemble(
            ("● ", "green") if each["alive"] else ("○ ", "red"),
            f"provider of {each['client']}: ",
            owner_words(each["owner"]) if each["alive"] else f"none now, the last one was seen at {each['seen_at']}",
        )
        for each in providers
    ]
    if not lines:
        lines = [Text("○ no client offers snapshots here", style="dim")]
    return Group(made if found else Text("no snapshot was ever asked for"), *lines)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, or how it stands."""

    snapshots: tuple[Snapshot, ...]
    timed_out: bool = False
    sessions: Mapping[str, str] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to any of them."""
        return bool(self.snapshots) and all(each.finished for each in self.snapshots)

    @property
    def applied(self) -> bool:
        """Whether all of them are applied."""
        return bool(self.snapshots) and all(each.state is SnapshotState.APPLIED for each in self.snapshots)

    def words(self) -> str:
        """Say what is not applied, and why."""
        late = ", which was not waited for any longer" if self.timed_out else ""
        return "; ".join(
            f"the snapshot of {each.client} for {'every site' if each.destination == EVERY_SITE else each.destination} "
            f"is {each.state.value}{late}{': ' + one_line(each.error) if each.error else ''}"
            for each in self.snapshots
            if each.state is not SnapshotState.APPLIED
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON says it."""
        return {
            "applied": self.applied,
            "timed_out": self.timed_out,
            "snapshots": [snapshot_facts(each) for each in self.snapshots],
        }


class Follow:
    """Looks again and again at one request; one for every site becomes one for each when the server has seen it."""

    def __init__(self, engine: Engine, sync_id: str) -> None:
        """Raise `UsageError` when there is no such request."""
        self._engine = engine
        with reading(engine) as connection:
            self._asked = _find(connection, sync_id)

    def look(self) -> Outcome:
        """Return how it stands."""
        with reading(self._engine, snapshot=True) as connection:
            mine = snapshots.find(connection, self._asked.sync_id)
            if mine is not None:
                followed = [mine]
            elif self._asked.destination == EVERY_SITE:
                followed = _expanded(connection, self._asked)
            else:
                followed = []
            return Outcome(tuple(followed), sessions=_session_words(connection, self._asked.client))


def _find(connection: Connection, sync_id: str) -> Snapshot:
    found = snapshots.find(connection, sync_id)
    if found is not None:
        return found
    near = [each for each in snapshots.listing(connection, limit=1_000) if each.sync_id.startswith(sync_id)]
    if len(near) != 1:
        raise UsageError(f"there is no snapshot {sync_id!r}: `lrq snapshot list` shows those that there are")
    return near[0]


def _expanded(connection: Connection, asked: Snapshot) -> list[Snapshot]:
    """Return what the server made of a request for every site: the newest one of each, made no earlier."""
    newest: dict[str, Snapshot] = {}
    for each in snapshots.listing(connection, asked.client, limit=1_000):
        if each.requested_us >= asked.requested_us and each.destination != EVERY_SITE:
            newest.setdefault(each.destination, each)
    return sorted(newest.values(), key=lambda each: each.destination)


def _session_words(connection: Connection, client: ClientName) -> dict[str, str]:
    rows = connection.execute(select(sessions).where(sessions.c.client == client)).all()
    return {row.destination: f"{row.state}: {row.reason}" if row.reason else row.state for row in rows}
