"""The groups of replicas of a running source: the sets that follow them, and the members that serve."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Connection, Engine

from discovery.topology import Topology
from lr_server.protocol.negotiation import REGROUPED
from queues import send_snapshot
from queues.clock import Clock
from queues.database.generations import pass_over
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.logs import logger
from queues.names import SiteId
from queues.replica_groups import ActiveMember
from queues.send_log.port import Log, Regrouped
from queues.send_log.replica_members import choose, read_active, read_facts
from sink.protocol.log_rules import believable

log = logger("lrq.replicas")

#: A choice that was read longer ago, in pauses, is told to no site: another server may have changed it.
_FRESH: Final = 3.0


class ReplicaWork:
    """The work of one server for the groups of its site; `follow` and `look` are for the supervisor's thread."""

    def __init__(
        self, engine: Engine, topology: Topology, log_now: Callable[[], Log], *, pause: float, clock: Clock
    ) -> None:
        """Read the choices once in *pause* seconds; *log_now* returns the log from which ticks are taken."""
        self._engine = engine
        self._topology = topology
        self._log_now = log_now
        self._pause = pause
        self._clock = clock
        self._active: Mapping[SiteId, ActiveMember] = {}
        self._read_at = -math.inf
        #: Sessions read ticks up to this sequence from the database: those in memory may go to the sites of before.
        self.regrouped_seq = 0

    def follow(self, lease: Lease) -> None:
        """As the sequencer, let the destination sets follow the groups of the topology.

        A session with other entries than before gets a snapshot, because the numbers of its entries have changed.
        Raises `OwnershipLostError` and `StoreUnavailableError`.
        """
        groups, peers = self._topology.replicas(), self._topology.peers()

        def then(connection: Connection, changed: Regrouped) -> None:
            for key in sorted(changed.sessions):
                if key.destination in peers:
                    send_snapshot.request(connection, key.client, [key.destination], REGROUPED)
            if changed.is_change:
                log.info("the groups of replicas are read", groups=len(groups), snapshots=len(changed.sessions))

        self._log_now().regroup(lease, groups, then)
        self.look(at_once=True)

    def look(self, *, at_once: bool) -> None:
        """Read which members serve; without *at_once* only if there are groups, and the last read is a pause ago."""
        began = self._clock.monotonic()
        is_due = bool(self._topology.replicas()) and began - self._read_at >= self._pause
        if not is_due and not at_once:
            return
        with reading(self._engine) as connection:
            facts = read_facts(connection)
        self.regrouped_seq = facts.regrouped_seq
        self._active = {member: each for each in facts.active for member in facts.groups.get(each.name, ())}
        self._read_at = began

    def serving(self, site: SiteId) -> ActiveMember | None:
        """Return the member that serves for the group of *site*; None without a group, or after an old read.

        For any thread.
        """
        is_fresh = self._clock.monotonic() - self._read_at < _FRESH * self._pause
        return self._active.get(site) if is_fresh else None

    def heard(self, site: SiteId, generation: int) -> None:
        """Choose the same member again, above *generation*, if *site* knows a later choice than this source.

        So the word of a source counts that was restored from an old backup. A generation far above is not believed,
        because the site's counter would come near its end. Raises `StoreUnavailableError`.
        """
        known = self.serving(site)
        if known is None or generation <= known.generation:
            return
        if generation > believable(known.generation):
            log.warning("a member tells a generation that no source can have told", site=site, told=generation)
            return
        with writing(self._engine) as connection:
            found = read_active(connection, [known.name])
            if found and found[0].generation < generation:
                pass_over(connection, generation)
                chosen = choose(connection, known.name, found[0].member)
                log.warning("a member knows a later choice than this source", site=site, **chosen._asdict())
