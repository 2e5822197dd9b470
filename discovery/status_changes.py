"""The parts of a site's status that differ between two readings. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from discovery.receive_status import ReceiveQueueStatus
from discovery.replay_status import ReplayStatus
from discovery.resend_status import ResendStatus
from discovery.session_status import Lag, LinkStatus, SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A status with its parts that are new or differ from the reading before; at first, all of them.

    The mere age of a part is no difference. `gone` has the names of parts that are not there any more, such as
    `session policy/tokyo`.
    """

    status: SiteStatus
    sessions: tuple[SessionStatus, ...] = ()
    receive_queues: tuple[ReceiveQueueStatus, ...] = ()
    links: tuple[LinkStatus, ...] = ()
    snapshots: tuple[SnapshotStatus, ...] = ()
    gone: tuple[str, ...] = ()
    replays: tuple[ReplayStatus, ...] = ()
    resends: tuple[ResendStatus, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no part differs."""
        orders = (self.replays, self.resends)
        return not any((self.sessions, self.receive_queues, self.links, self.snapshots, *orders, self.gone))


def change_between(before: SiteStatus | None, now: SiteStatus) -> StatusChange:
    """Return the parts of *now* that differ from *before*; all of them without a reading before."""
    old = before or SiteStatus(now.site, now.at_us, (), now.log)
    sessions = _differing(old.sessions, now.sessions, _session_name, _ageless_session)
    queues = _differing(old.receive_queues, now.receive_queues, _queue_name, _ageless_queue)
    links = _differing(old.links, now.links, _link_name, lambda each: each)
    snapshots = _differing(old.snapshots, now.snapshots, _snapshot_name, _ageless_snapshot)
    replays = _differing(old.replays, now.replays, _replay_name, lambda each: each)
    resends = _differing(old.resends, now.resends, _resend_name, lambda each: each)
    missing = sorted(_names(old) - _names(now))
    return StatusChange(now, sessions, queues, links, snapshots, tuple(missing), replays, resends)


def _differing(
    old: Sequence[Part], new: Sequence[Part], name: Callable[[Part], str], ageless: Callable[[Part], Any]
) -> tuple[Part, ...]:
    known = {name(each): ageless(each) for each in old}
    return tuple(each for each in new if known.get(name(each)) != ageless(each))


def _names(status: SiteStatus) -> set[str]:
    return {
        *map(_session_name, status.sessions),
        *map(_queue_name, status.receive_queues),
        *map(_link_name, status.links),
        *map(_snapshot_name, status.snapshots),
        *map(_replay_name, status.replays),
        *map(_resend_name, status.resends),
    }


def _session_name(each: SessionStatus) -> str:
    return f"session {each.client}/{each.destination}"


def _queue_name(each: ReceiveQueueStatus) -> str:
    return f"receive queue {each.client}/{each.source}"


def _link_name(each: LinkStatus) -> str:
    return f"link {each.client}/{each.destination}"


def _snapshot_name(each: SnapshotStatus) -> str:
    return f"snapshot {each.sync_id}"


def _replay_name(each: ReplayStatus) -> str:
    return f"replay {each.client}/{each.source}"


def _resend_name(each: ResendStatus) -> str:
    return f"resend {each.client}/{each.destination}"


def _ageless_session(each: SessionStatus) -> SessionStatus:
    return replace(each, updated_us=0, lag=_ageless(each.lag), applied_lag=_ageless(each.applied_lag))


def _ageless(lag: Lag) -> Lag:
    return replace(lag, seconds=0.0)


def _ageless_queue(each: ReceiveQueueStatus) -> ReceiveQueueStatus:
    return replace(each, oldest_seconds=0.0)


def _ageless_snapshot(each: SnapshotStatus) -> SnapshotStatus:
    return replace(each, updated_us=0, cut_seconds=None, rows_per_second=None, seconds_left=None)
