"""The claims of destinations on a segment, and how long each claim keeps the segment. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from queues.send_log.port import Retention, SessionKey


@dataclass(frozen=True, slots=True)
class Claim:
    """A destination that lacks entries of a segment: it has acknowledged up to `acked_seq`.

    An unknown destination is no peer of the site; a removed site became unknown at `since_us`.
    """

    owed: SessionKey
    acked_seq: int
    is_unknown: bool
    since_us: int = 0


def is_kept(claims: Sequence[Claim], created_us: int, retention: Retention, now: int) -> bool:
    """Return whether *claims* keep a segment that is not beyond retention and whose newest tick is of *created_us*.

    The claim of a peer keeps the segment. Claims of unknown destinations keep it for `unknown_seconds` after the
    newest tick, or after a later removal. Without any claim it is kept for `acknowledged_seconds` after that tick, so
    that sites can have its entries again.
    """
    if is_replayable(created_us, retention, now):
        return True
    if not all(claim.is_unknown for claim in claims):
        return True
    since_us = max((claim.since_us for claim in claims), default=0)
    return bool(claims) and max(created_us, since_us) + int(retention.unknown_seconds * 1_000_000) >= now


def is_replayable(created_us: int, retention: Retention, now: int) -> bool:
    """Return whether a segment whose newest tick is of *created_us* is kept for replays.

    After the clock went back, a tick may be of a later time. A much later time keeps nothing.
    """
    return abs(now - created_us) < int(retention.acknowledged_seconds * 1_000_000)
