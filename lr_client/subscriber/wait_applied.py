"""Wait, at a sink, until the subscriber has applied a transaction of the source: read-your-own-writes."""

from typing import Final

from sqlalchemy import Connection, Engine

from lr_client.arguments import checked_timeout
from lr_client.wait_replicated import lost, token_of
from queues.clock import SYSTEM_CLOCK, Clock, poll
from queues.database import schema
from queues.database.engine_check import require_engine
from queues.database.transactions import reading
from queues.errors import UsageError, VersionLostError, WaitTimeoutError
from queues.lineage import trace
from queues.names import ClientName, SiteId
from queues.positions import PositionToken, Visibility
from queues.receive import lineages
from queues.receive.consumer_marks import IN_LOG
from queues.receive.headers import mark_within
from queues.receive.queue_marks import applied_marks

_PAUSE: Final = 0.01


def wait_applied(engine: Engine, token: PositionToken | str, timeout: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Wait until this site's subscriber has applied everything up to *token*; at most *timeout* seconds.

    A parked transaction counts as applied, because later entries go on: `lr_client.status` and `lrq park list` show it.
    *token* is the return value of `transmit_log_entry_message` at the source, or its text. Raises `WaitTimeoutError`
    when the time is over, and `InvalidPositionError` for a text that is not a token. Raises `VersionLostError` at once
    if a promotion or a restore of the source has lost the transaction. Raises `UsageError` for a token of this site.

    Example:
        >>> wait_applied(engine, token, timeout=5.0)
    """
    require_engine(engine, "wait_applied")
    wanted = token_of(token)
    checked_timeout(timeout)
    with reading(engine) as connection:
        own = schema.site(connection, None).site_id
    if wanted.site == own:
        raise UsageError(f"{wanted} is a token of {own!r} itself, where it is no received entry: wait at its sinks")

    def look() -> bool:
        with reading(engine, snapshot=True) as connection:
            return _applied(connection, wanted)

    if not poll(look, bool, timeout=timeout, pause=_PAUSE, clock=clock):
        raise WaitTimeoutError(
            f"after {timeout} s this site has not applied {wanted} yet: is a subscriber of "
            f"{wanted.client!r} running, and does {wanted.site!r} replicate to here?"
        )


def _applied(connection: Connection, token: PositionToken) -> bool:
    consumed = applied_marks(connection, ClientName(token.client), SiteId(token.site))
    if consumed is None:
        return False
    branches = lineages.known(connection, ClientName(token.client), SiteId(token.site))
    found = trace(branches, token.branch, token.timeline, token.transaction)
    if found.is_lost:
        raise VersionLostError(lost(token))
    in_sync = consumed.phase == IN_LOG and consumed.sync_id == consumed.newest_sync_id
    cut = consumed.cut if in_sync and consumed.cut_branch in found.holders else ""
    marks = [mark_within(connection, consumed.queue_id, holder, consumed.applied_seq) for holder in found.holders]
    return any(Visibility.parse(mark).surely_covers(token.transaction) for mark in (cut, *marks) if mark)
