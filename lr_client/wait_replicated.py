"""Wait, at the source, until destinations have stored a transaction durably."""

from collections.abc import Sequence
from operator import not_

from sqlalchemy import Connection, Engine

from lr_client.arguments import checked_timeout
from queues.clock import poll
from queues.database import schema
from queues.database.engine_check import described
from queues.database.transactions import reading
from queues.errors import (
    InvalidPositionError,
    UnknownDestinationError,
    UsageError,
    VersionLostError,
    WaitTimeoutError,
)
from queues.lineage import trace
from queues.names import ClientName, SiteId
from queues.positions import PositionToken, Visibility
from queues.replica_groups import named_sites
from queues.send_log.history import branches_from, end_covering, lineage
from queues.send_log.replica_members import read_groups
from queues.send_log.sessions import sessions_of

_PAUSE = 0.02


def token_of(given: object) -> PositionToken:
    """Return *given*, a token or its text, as a token; raise `InvalidPositionError` for anything else."""
    if isinstance(given, PositionToken):
        return given
    if isinstance(given, str):
        return PositionToken.parse(given)
    raise InvalidPositionError(
        f"a token is the result of transmit or its text, not {described(given)}: pass either of them"
    )


def lost(token: PositionToken) -> str:
    """Return the sentence about a token whose transaction is lost."""
    return (
        f"the transaction of {token} is not in the history of {token.site!r} any more, because of a promotion or a "
        "restore: look there for its changes, and write them again if they are missing"
    )


def wait_replicated(
    engine: Engine, client: ClientName, token: PositionToken | str, destinations: Sequence[SiteId], timeout: float
) -> None:
    """See `RoutingQueueSenderClient.wait_replicated`."""
    wanted = token_of(token)
    if wanted.client != client:
        # The session of another client may be further than that of the token's client.
        raise UsageError(
            f"the token {wanted} is one of client {wanted.client!r}, not of {client!r}: "
            f"wait with RoutingQueueSenderClient({wanted.client!r})"
        )

    def look() -> list[SiteId]:
        with reading(engine, snapshot=True) as connection:
            return _missing(connection, client, wanted, destinations)

    checked_timeout(timeout)
    with reading(engine) as connection:
        own = schema.site(connection, None).site_id
    if wanted.site != own:
        raise UsageError(f"the token {wanted} is one of site {wanted.site!r}, and this is {own!r}: wait there")
    if own in destinations:
        raise UnknownDestinationError(f"{own!r} is this site itself, which has the transaction: name another site")
    if missing := poll(look, not_, timeout=timeout, pause=_PAUSE):
        raise WaitTimeoutError(f"after {timeout} s these sites do not have {wanted} yet: {', '.join(missing)}")


def _missing(
    connection: Connection, client: ClientName, token: PositionToken, destinations: Sequence[SiteId]
) -> list[SiteId]:
    found = trace(lineage(connection), token.branch, token.timeline, token.transaction)
    if found.is_lost:
        raise VersionLostError(lost(token))
    ends = ((holder, end_covering(connection, holder, token.transaction)) for holder in found.holders)
    holder, end = next(((holder, end) for holder, end in ends if end is not None), ("", None))
    later = branches_from(connection, holder)
    # A group of replicas has the transaction once all members have it.
    wanted = named_sites(destinations, read_groups(connection))
    have = set()
    for row in sessions_of(connection, client, wanted):
        # A cut names transactions by number, and a promoted database may use the same numbers again.
        is_ours = row.branch in found.holders
        in_snapshot = is_ours and bool(row.cut) and Visibility.parse(row.cut).surely_covers(token.transaction)
        in_log = end is not None and row.branch in later and row.acked_seq >= end
        if in_log or in_snapshot:
            have.add(row.destination)
    return [name for name in wanted if name not in have]
