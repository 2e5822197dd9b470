"""Watch the sessions that wait for a provider: warn, or let a first snapshot go where the log can begin."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, Engine

from lr_server.protocol.negotiation import FIRST_SNAPSHOT, InitialSync, without_provider
from lr_server.source.reminders import Reminders
from queues import send_snapshot
from queues.clock import Clock
from queues.database.leases import Lease
from queues.database.servers import check_ranges
from queues.database.transactions import reading, writing
from queues.logs import logger
from queues.replica_groups import NO_GROUPS, Groups, group_of
from queues.send_log.port import SessionKey
from queues.send_log.replica_members import read_groups
from queues.send_log.strangers import is_whole
from queues.send_snapshot import SnapshotState, SnapshotSync

log = logger("lrq.source")

_GONE: Final = "its provider has left before the first snapshot, and the log is whole: the session begins with the log"


class ProviderWatch:
    """Remembers the warnings; for one thread."""

    def __init__(self, engine: Engine, initial_sync: InitialSync, clock: Clock) -> None:
        self._engine = engine
        self._initial_sync = initial_sync
        self._clock = clock
        self._reminders: Reminders[SessionKey] = Reminders()

    def look(self, waiting: Mapping[SessionKey, Lease]) -> None:
        """Look at the sessions *waiting* for a snapshot, with their leases; without any, the database is not read.

        With `auto`, cancel the request for a first snapshot once the log can begin instead. The session then negotiates
        again. Warn about all others without a provider. Raises the errors of `queues.database.transactions`.
        """
        found: dict[SessionKey, SnapshotSync] = {}
        groups: Groups = NO_GROUPS
        if waiting:
            with reading(self._engine) as connection:
                requests, groups = send_snapshot.unprovided(connection), read_groups(connection)
            found = {key: each for each in requests if (key := SessionKey(each.client, each.destination)) in waiting}
        if self._initial_sync == "auto":
            found = {key: each for key, each in found.items() if not self._let_go(each, waiting[key])}
        for key in self._reminders.due(found, self._clock.monotonic()):
            is_member = group_of(key.destination, groups) is not None
            log.warning(without_provider(key.client, is_member=is_member), **key._asdict())

    def _let_go(self, request: SnapshotSync, lease: Lease) -> bool:
        if request.reason != FIRST_SNAPSHOT or request.state is not SnapshotState.REQUESTED:
            return False
        with reading(self._engine) as connection:
            if not _can_begin(connection, request):
                return False
        with writing(self._engine) as connection:
            check_ranges(connection, [lease])
            # A provider may have come since.
            if not _can_begin(connection, request):
                return False
            send_snapshot.cancel_one(connection, request.sync_id, _GONE)
        return True


def _can_begin(connection: Connection, request: SnapshotSync) -> bool:
    key = SessionKey(request.client, request.destination)
    return not send_snapshot.is_provided(connection, key.client) and is_whole(connection, key)
