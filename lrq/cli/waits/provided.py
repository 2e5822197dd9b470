"""The snapshot requests of a client as they are at one moment, and the wait until they are served."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from queues import send_snapshot
from queues.database.transactions import reading
from queues.names import ClientName
from queues.send_snapshot import EVERY_SITE, SnapshotSync
from queues.states import SnapshotState

#: Failed attempts after which `lrq provide --once` gives up.
TRIES: Final = 3
_PENDING: Final = (SnapshotState.REQUESTED, SnapshotState.BUILDING)
_PROVIDED: Final = (SnapshotState.READY, SnapshotState.APPLIED)

#: The unfinished requests of a client, by sync id.
Requests = Mapping[str, SnapshotSync]


@dataclass(frozen=True, slots=True)
class WantedSnapshots:
    """The requests to serve, as they were when the wait began."""

    requests: Requests

    def left(self, now: Requests) -> list[SnapshotSync]:
        """Return the requests that are still to be served; cancelled and replaced ones are not. Pure."""
        return [each for sync_id, each in now.items() if sync_id in self.requests]

    def expanded(self, now: Requests) -> "WantedSnapshots":
        """Return the requests of single sites in place of a request for every site, once the server has made them.

        Pure.
        """
        every = [sync_id for sync_id, each in self.requests.items() if each.destination == EVERY_SITE]
        return WantedSnapshots({**now, **self.requests}) if any(each not in now for each in every) else self

    def failures(self, now: Requests) -> list[SnapshotSync]:
        """Return the requests whose attempts have failed `TRIES` times since the wait began. Pure."""
        return [
            each
            for each in self.left(now)
            if each.error
            and each.state is SnapshotState.REQUESTED
            and each.attempt - self.requests[each.sync_id].attempt >= TRIES
        ]


def pending(engine: Engine, client: ClientName) -> Requests:
    """Return the newest request of each site that is neither published nor finished."""
    with reading(engine) as connection:
        found = send_snapshot.newest_of_each(connection)
    return {each.sync_id: each for each in found if each.client == client and each.state in _PENDING}


def provided(engine: Engine, wanted: WantedSnapshots) -> int:
    """Return how many of *wanted* are published."""
    with reading(engine) as connection:
        found = [send_snapshot.find(connection, sync_id) for sync_id in wanted.requests]
    return sum(1 for each in found if each is not None and each.state in _PROVIDED)
