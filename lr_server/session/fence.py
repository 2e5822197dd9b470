"""The generation that one session tells its sink: its range's, and a lead that the session has stored.

Every later leader of the range has a higher generation and at least the same lead. So each told generation is above all
earlier ones. A refusal raises the lead of its own session only.
"""

from sqlalchemy import Engine

from lr_server.protocol.events import RefusalKind, Refused
from lr_server.protocol.fencing import Fence, Leap, Outbidding, decide_leap
from queues.clock import Clock
from queues.database.leases import Lease
from queues.database.servers import check_ranges
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError
from queues.logs import logger
from queues.names import SiteId
from queues.send_log import sessions
from queues.send_log.port import SessionKey

log = logger("lrq.session")


class SessionFence:
    """The lead of one session, under the lease of its range; for the session's thread."""

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        owed: SessionKey,
        lease: Lease,
        *,
        pause_seconds: float,
        clock: Clock,
        ring_generation: int = 0,
    ) -> None:
        """Leap at most once in *pause_seconds*.

        The leader of a ring tells its *ring_generation*, and never leaps.
        """
        self._engine = engine
        self._site = site
        self._owed = owed
        self._lease = lease
        self._pause_us = int(pause_seconds * 1_000_000)
        self._clock = clock
        self._ring_generation = ring_generation
        self._fence = Fence()
        self._told = ""

    @property
    def generation(self) -> int:
        """The generation to tell, as of the last `read`."""
        return self._ring_generation or self._lease.generation + self._fence.lead

    @property
    def holder(self) -> str:
        """A text that differs between two holders of one generation: a site and its copy, which share each branch.

        Empty for a ring, where no two members lead in one generation.
        """
        return "" if self._ring_generation else self._lease.owner.rpartition(":")[2]

    def read(self) -> None:
        """Read the lead, which an earlier leader may have raised."""
        with reading(self._engine) as connection:
            self._fence = Fence(*sessions.stored_fence(connection, self._owed))

    def note_success(self) -> None:
        """Allow new leaps after a negotiation that needed none: an operator has reset the sink's fence."""
        if self._fence.is_spent:
            self._store(self._fence._replace(leaps=0))

    def answer(self, refused: Refused) -> Refused:
        """Return the refusal to react to: one for now after a leap, or one for good.

        Raises `OwnershipLostError` if this server does not lead the range any more, and `StoreUnavailableError`.
        """
        if self._ring_generation:
            # Entries of the later leader would be undone, if this one went on with a still higher generation.
            words = f"{self._owed.destination} knows a later leader of the ring than generation {self.generation}"
            return Refused(RefusalKind.STALE_LEADER, words)
        outbidding = Outbidding(self._site, self._owed.destination, self.generation, refused.known_generation)
        decision = decide_leap(self._fence, outbidding, now_us=self._clock.now_us(), pause_us=self._pause_us)
        # A server that has lost the range fails here, and leaps nowhere.
        if decision.fence != self._fence:
            self._store(decision.fence)
        if decision.reason != self._told:
            log.warning(
                "the sink knows a newer generation of this site", **self._owed._asdict(), reason=decision.reason
            )
            self._told = decision.reason
        kind = RefusalKind.TRANSIENT if isinstance(decision, Leap) else RefusalKind.STALE_LEADER
        return Refused(kind, decision.reason)

    def _store(self, fence: Fence) -> None:
        with writing(self._engine) as connection:
            check_ranges(connection, [self._lease])
            # A later leader may take over before this commit. So the update fails if the fence has changed meanwhile.
            if not sessions.replace_fence(connection, self._owed, self._fence, fence):
                raise StoreUnavailableError("another server has changed the fence of the session: try again")
        self._fence = fence
