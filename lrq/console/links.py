"""Join the statuses of several sites: each session with the receive queue at its destination. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from discovery.receive_status import ReceiveQueueStatus
from discovery.replay_status import ReplayStatus
from discovery.session_status import SessionStatus
from discovery.snapshot_status import SnapshotStatus
from lrq.cli.health import server_is_alive, troubles
from lrq.cli.words import plural
from lrq.console.watch import WatchedSite
from queues.receive.replays import ReplayState
from queues.states import SessionState, SnapshotState


class Tone(StrEnum):
    """The colour of a state; each has its word in the page too, so that no colour stands alone."""

    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ShownLink:
    """A session as its source sees it, with the receive queue if the console watches the destination too."""

    source: WatchedSite
    session: SessionStatus
    queue: ReceiveQueueStatus | None = None
    sink_key: str = ""

    @property
    def tone(self) -> Tone:
        """The colour of the link."""
        return Tone.BAD if self.queue is not None and self.queue.failure else session_tone(self.session)

    @property
    def is_known(self) -> bool:
        """Whether the source has heard how far the destination has applied the log."""
        return self.session.applied_seq is not None

    @property
    def rate(self) -> float | None:
        """The acknowledged entries per second; None if unknown."""
        return self.source.rates.of("session", self.session.client, self.session.destination)


@dataclass(frozen=True, slots=True)
class SiteCard:
    """A site on the map: its colour, one sentence, and the sentences of its troubles."""

    view: WatchedSite
    tone: Tone
    words: str
    troubles: tuple[str, ...] = ()


def session_tone(session: SessionStatus) -> Tone:
    """Return the colour of a session."""
    if session.state is SessionState.FAILED or session.stalled or session.unapplied:
        return Tone.BAD
    if session.unprovided or session.state is SessionState.BACKING_OFF:
        return Tone.WARN
    if session.state in (SessionState.INACTIVE, SessionState.STOPPED, SessionState.IDLE):
        return Tone.OFF
    return Tone.GOOD if session.state is SessionState.LOG_ENTRY_SYNC else Tone.BUSY


def snapshot_tone(snapshot: SnapshotStatus) -> Tone:
    """Return the colour of a snapshot."""
    if snapshot.is_failing:
        return Tone.BAD
    if snapshot.state is SnapshotState.APPLIED:
        return Tone.GOOD
    return Tone.OFF if snapshot.state is SnapshotState.CANCELLED else Tone.BUSY


def replay_tone(replay: ReplayStatus) -> Tone:
    """Return the colour of an order for a replay."""
    match replay.state:
        case ReplayState.ORDERED:
            return Tone.BUSY
        case ReplayState.BEGUN:
            return Tone.GOOD
        case ReplayState.REFUSED:
            return Tone.BAD
        case ReplayState.CANCELLED:
            return Tone.OFF
        case _:
            assert_never(replay.state)


def links(views: Sequence[WatchedSite]) -> list[ShownLink]:
    """Return the links of all sites, by client, source and destination."""
    queues: dict[tuple[str, str, str], tuple[ReceiveQueueStatus, str]] = {
        (queue.client, queue.source, view.status.site): (queue, view.key)
        for view in views
        if view.status is not None
        for queue in view.status.receive_queues
    }
    found = []
    for view in views:
        for session in view.status.sessions if view.status else ():
            joined = queues.get((session.client, view.name, session.destination))
            found.append(ShownLink(view, session, *joined) if joined else ShownLink(view, session))
    return sorted(found, key=lambda each: (each.session.client, each.source.name, each.session.destination))


def site_card(view: WatchedSite) -> SiteCard:
    """Return the card of one site."""
    status = view.status
    if view.trouble:
        return SiteCard(view, Tone.BAD, "does not answer", (view.trouble,))
    if status is None:
        return SiteCard(view, Tone.OFF, "is being read for the first time")
    found = tuple(troubles(status))
    servers = len(status.living)
    if not server_is_alive(status):
        # A site without entries to send is well without a server, and so is a member of a ring.
        words = f"member {status.ring_rank} of a ring, does not lead" if status.is_other_member else "no server works"
        return SiteCard(view, Tone.BAD if found else Tone.OFF, words, found)
    words = "1 server works" if servers < 2 else f"{servers} servers work"
    if not found:
        return SiteCard(view, Tone.GOOD, words, ())
    return SiteCard(view, Tone.WARN, f"{words}, {plural(len(found), 'trouble')}", found)
