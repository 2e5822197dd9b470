"""The member of a ring at one server: its store, its connections, and its state."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Engine

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.answers import missed_followers
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.roles import Adopting, Fenced, Proposing, RingLimits
from lr_server.ring.codec import RingAddress
from lr_server.ring.links import RingLink
from lr_server.ring.member_state import known_leader, led_generation, trimmable
from lr_server.ring.ring_servicer import RingServicer
from lr_server.ring.runner import MemberLink, TokenRunner
from lr_server.ring.store import TokenStore
from lr_server.ring.timers import pace_of
from lr_server.ring.witness import StoreWitness
from lr_server.ring_setting import RingSetting
from queues.clock import Clock
from sink.transport.credentials import Credentials

#: The token of a site's ring: three servers keep one log.
TOKEN: Final = 0


class SeatPlace(NamedTuple):
    """The site of a member, its table `[ring]`, and the way to fresh credentials."""

    site: str
    setting: RingSetting
    credentials: Credentials | None


class RingSeat:
    """The member of this server, from `start` to `stop`."""

    def __init__(self, engine: Engine, place: SeatPlace, *, on_change: Callable[[], None], clock: Clock) -> None:
        """Prepare the member on *engine*'s file; call *on_change* soon after each newly released tick."""
        setting = place.setting
        self._engine = engine
        self._place = place
        self._clock = clock
        self._links: dict[int, MemberLink] = {}
        self._open_links = ExitStack()
        self._on_change = on_change
        self._released = 0
        self.runner = TokenRunner(
            self._open_store, setting.rank, self._links,
            pace=pace_of(setting.lease_seconds, setting.stall_seconds),
            limits=RingLimits(acknowledging=setting.acknowledging_followers),
            release=self._note_release, trims=setting.trim, clock=clock,
        )  # fmt: skip
        self._address = RingAddress(place.site, TOKEN)
        self.servicer = RingServicer({self._address: self.runner}, clock, looks={self._address: lambda: self.status})

    def start(self) -> None:
        """Connect to the other members, and begin; the service must listen."""
        setting = self._place.setting
        for rank in RANKS:
            if rank != setting.rank:
                link = RingLink(
                    self._address, rank, setting.members[rank],
                    credentials=self._place.credentials, clock=self._clock,
                )  # fmt: skip
                self._links[rank] = self._open_links.enter_context(closing(link))
        self.runner.start()

    def stop(self) -> None:
        """End the member after its step; its last messages may be lost. May be called twice."""
        # Without its connections a newcomer waits for no ticks of its copy.
        self._open_links.close()
        self.runner.stop()

    @property
    def leads(self) -> int:
        """The generation that the member leads and in which it takes entries; 0 for none."""
        return led_generation(self.runner.member)

    @property
    def leader_endpoint(self) -> str:
        """The endpoint of another member that leads; empty if none is known."""
        leader = known_leader(self.runner.member)
        return "" if leader is None or leader == self._place.setting.rank else self._place.setting.members[leader]

    @property
    def lack(self) -> str:
        """Why no member can take entries now, as a member knows that lacks followers; empty otherwise."""
        member = self.runner.member
        if member is None:
            return ""
        is_alone = isinstance(member.role, Fenced | Proposing | Adopting)
        return self.status.trouble if is_alone or missed_followers(member) else ""

    def released(self) -> int:
        """Return the number of the newest tick that is known as released, now and under every later leader."""
        member = self.runner.member
        return self._released if member is None else max(self._released, member.released)

    @property
    def trims(self) -> bool:
        """Whether the log of this member is trimmed."""
        return self._place.setting.trim

    def trimmable(self) -> int:
        """Return the number of the newest tick that all members have on their disks, and that may be trimmed."""
        return trimmable(self.runner.member)

    @property
    def status(self) -> RingStatus:
        """The state of the member now."""
        return replace(self.runner.status, rings=self._place.setting.rings)

    def _open_store(self) -> TokenStore:
        return TokenStore(self._engine, TOKEN, StoreWitness(Path(self._place.setting.witness)))

    def _note_release(self, upto: int) -> None:
        # The state of the member follows only after the step.
        self._released = upto
        self._on_change()
