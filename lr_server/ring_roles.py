"""The roles of a server on a ring: those of a site's only server, as long as its member leads.

Each lead has a `SiteRoles` of its own, because its sessions tell the generation that the member leads.
"""

import threading
from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from discovery.ring_status import RingStatus
from discovery.threads import watched
from lr_server.ring.former_snapshots import FormerSnapshots
from lr_server.ring.seat import RingSeat
from lr_server.ring.shown_snapshots import ShownSnapshots
from lr_server.session.traffic import Traffic
from lr_server.site_roles import SiteRoles
from lr_server.source.log_access import LogAccess, NewReleases
from lr_server.source.source import Source
from queues.clock import Clock
from queues.errors import ThreadEndedError
from queues.logs import logger
from queues.send_log.opening import open_log
from queues.send_log.ring.released_log import ReleasedLog
from queues.send_log.wakeup import wake_server
from queues.words import in_words

#: The longest time between two looks at the member, in seconds.
_LOOK = 0.1
#: The pause after roles that could not begin, in seconds.
_RETRY = 1.0

log = logger("lrq.server")

#: Returns the roles of one lead, with its access to the log.
NewRoles = Callable[[LogAccess, Traffic], SiteRoles]


class RingRoles:
    """Take part in the work of a site while the member of *seat* leads, from `start` to `stop`. See `SiteRoles`."""

    def __init__(self, engine: Engine, seat: RingSeat, new_roles: NewRoles, *, clock: Clock) -> None:
        """Begin each lead with *new_roles*; *engine* is that of the member's file."""
        self._seat = seat
        self._snapshots = ShownSnapshots(engine, seat.released)
        self._former = FormerSnapshots(engine, clock)
        self._new_roles = new_roles
        self._clock = clock
        self.traffic = Traffic()
        self._roles: SiteRoles | None = None
        # The roles that begin or end just now. No other lead begins before their end.
        self._passing: SiteRoles | None = None
        self._generation = 0
        self._trouble = ""
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._thread = watched("lrq-ring-roles", self._run, self._end_by_error)

    def start(self) -> None:
        """Begin the member, and watch whether it leads."""
        self._seat.start()
        self._thread.start()

    def stop(self) -> None:
        """End all work, and then the member. May be called twice."""
        self._stopping.set()
        self._changed.set()
        self._thread.join()
        self._seat.stop()

    def released(self) -> None:
        """Hear of a newly released tick, in the thread of the member."""
        roles = self._roles
        if roles is None:
            self._changed.set()
        else:
            wake_server(roles.name)

    @property
    def name(self) -> str:
        """The name of the server while it leads; empty otherwise."""
        return "" if (roles := self._roles) is None else roles.name

    @property
    def source(self) -> Source | None:
        """The source of this server; None while the member does not lead."""
        return None if (roles := self._roles) is None else roles.source

    @property
    def is_sequencer(self) -> bool:
        """Whether the member leads, and the server works for the site."""
        return (roles := self._roles) is not None and roles.is_sequencer

    @property
    def ranges(self) -> int:
        """The number of ranges that the server leads."""
        return 0 if (roles := self._roles) is None else roles.ranges

    def other_endpoints(self) -> Sequence[str]:
        """Return the endpoint of the member that leads, if that is another one."""
        endpoint = self._seat.leader_endpoint
        return [endpoint] if endpoint else []

    @property
    def reason(self) -> str:
        """Why the server works for the site, or does not, in one sentence."""
        if (roles := self._roles) is not None:
            return f"the member leads generation {self._generation}; {roles.reason}"
        return self.trouble or f"another member of the ring leads: {self._seat.leader_endpoint or 'none is known'}"

    @property
    def trouble(self) -> str:
        """Why the server takes no part in the work of the ring; empty while it does."""
        roles = self._roles
        return self._trouble or self.ring.trouble or ("" if roles is None else roles.trouble)

    @property
    def ring(self) -> RingStatus:
        """The state of the member."""
        return self._seat.status

    def topology_changed(self) -> None:
        """Do nothing: the members have no common table of peers."""

    def give_up(self, error: ThreadEndedError) -> None:
        """End the work of this lead for a time, because a thread has ended by *error*."""
        if (roles := self._roles) is not None:
            roles.give_up(error)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                self._clock.wait(self._changed, self._turn())
        finally:
            self._end()

    def _turn(self) -> float:
        """Follow the member; return the pause before the next look."""
        try:
            return _LOOK if self._follow(self._seat.leads) else _RETRY
        except Exception as error:
            # A member that leads for a server without roles would keep others from the lead.
            log.exception("the roles of a ring's server begin again after an error of their own")
            self._leave()
            self._tell(in_words(error))
            return _RETRY

    def _follow(self, generation: int) -> bool:
        """Begin or end the work, if *generation* is another than before; return whether that has succeeded."""
        if self._passing is not None:
            self._end()
        if generation == self._generation:
            if not generation:
                # A lead that could not begin is over.
                self._tell("")
                if leader := self._seat.leader_endpoint:
                    self._former.turn(leader)
            return True
        self._end()
        if not generation:
            return True
        seat = self._seat
        trimmable = seat.trimmable if seat.trims else None
        access = LogAccess(
            lambda engine, limits: ReleasedLog(engine, open_log(engine, limits), seat.released, trimmable),
            lambda _engine: NewReleases(seat.released),
            generation,
            trims=seat.trims,
            shown=self._snapshots.shown,
        )
        roles = self._passing = self._new_roles(access, self.traffic)
        try:
            roles.start()
        except Exception as error:  # noqa: BLE001 - the status shows the error, and the thread tries again
            self._tell(in_words(error))
            self._end()
            return False
        self._passing, self._roles, self._generation = None, roles, generation
        self._tell("")
        return True

    def _leave(self) -> None:
        """Show no roles any more; `_end` ends their work."""
        if self._roles is not None:
            self._passing, self._roles, self._generation = self._roles, None, 0

    def _end(self) -> None:
        """End the work; after an error the next call goes on with it."""
        self._leave()
        if self._passing is not None:
            self._passing.stop()
            self._passing = None
            self._former.led_here()

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("the server takes no part in the work of its ring", reason=trouble)
        self._trouble = trouble

    def _end_by_error(self, error: ThreadEndedError) -> None:
        self._tell(in_words(error))
        # Otherwise the member would lead, and no server would store the requests of producers.
        self._seat.stop()
