"""The status of a site as values: a reader of the database makes them, and `as_json` gives their JSON.

Times end in `_us` (microseconds since 1970, UTC) or `_seconds`; the JSON has ISO 8601 in place of the former. A `seq`
is a sequence number of the source's log.
"""

from dataclasses import dataclass, replace
from typing import Any

from discovery.log_status import LogStatus
from discovery.receive_status import ReceiveQueueStatus
from discovery.replay_status import ReplayStatus
from discovery.resend_status import ResendStatus
from discovery.server_status import SERVER_LEASE, OwnerStatus, ServerStatus, SiteServer
from discovery.session_status import LinkStatus, ReplicasStatus, SessionStatus
from discovery.snapshot_status import SnapshotStatus
from queues.clock import iso
from queues.database.standby_facts import StandbyFacts
from queues.send_log.port import SessionKey


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site at the time `at_us`; `snapshots` are the newest requests, newest first.

    `quiet` are the peers to which a client has sent nothing yet, so there is no session. `links` are those with a wish
    of an operator. `server` is None in a status that no server gives. `servers` are the running ones, and for a while
    those that have ended. `standbys` is None for a database without standby servers. `replicas` are the groups that the
    site sends to. `replays` are the orders that wait, and those that have ended in the last hour, newest first.
    `resends` are the orders to send a range again that have not ended, newest first.
    `ring_rank` is the rank of the member of a ring that keeps this database; None without a ring.
    """

    site: str
    at_us: int
    owners: tuple[OwnerStatus, ...]
    log: LogStatus
    sessions: tuple[SessionStatus, ...] = ()
    snapshots: tuple[SnapshotStatus, ...] = ()
    receive_queues: tuple[ReceiveQueueStatus, ...] = ()
    server: ServerStatus | None = None
    quiet: tuple[SessionKey, ...] = ()
    servers: tuple[SiteServer, ...] = ()
    standbys: StandbyFacts | None = None
    links: tuple[LinkStatus, ...] = ()
    replicas: tuple[ReplicasStatus, ...] = ()
    replays: tuple[ReplayStatus, ...] = ()
    resends: tuple[ResendStatus, ...] = ()
    ring_rank: int | None = None

    @property
    def is_other_member(self) -> bool:
        """Whether the database belongs to a member of a ring that does not lead."""
        return self.ring_rank is not None and not self.living

    @property
    def living(self) -> tuple[SiteServer, ...]:
        """The servers that are alive."""
        return tuple(each for each in self.servers if each.alive)

    @property
    def server_owner(self) -> OwnerStatus | None:
        """The last server that took the ticks of the site."""
        return next((each for each in self.owners if each.lease == SERVER_LEASE), None)

    def without_messages(self) -> "SiteStatus":
        """Return the status without the messages of listeners' errors, which may hold parts of payloads."""
        return replace(self, receive_queues=tuple(each.without_messages() for each in self.receive_queues))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq status --json`; with `server` also that part."""
        found: dict[str, Any] = {
            "site": self.site,
            "at": iso(self.at_us),
            "owners": [each.as_json() for each in self.owners],
            "servers": [each.as_json() for each in self.servers],
            "log": self.log.as_json(),
            "sessions": [each.as_json() for each in self.sessions],
            "links": [each.as_json() for each in self.links],
            "replicas": [each.as_json() for each in self.replicas],
            "snapshots": [each.as_json() for each in self.snapshots],
            "receive_queues": [each.as_json() for each in self.receive_queues],
            "replays": [each.as_json() for each in self.replays],
            "resends": [each.as_json() for each in self.resends],
            "quiet": [each._asdict() for each in self.quiet],
            "standbys": self.standbys and self.standbys._asdict(),
            "ring_rank": self.ring_rank,
        }
        return found if self.server is None else found | {"server": self.server.as_json()}
