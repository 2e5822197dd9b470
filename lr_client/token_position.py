"""The place of a transaction in the log of its source, for readers that keep positions."""

from sqlalchemy import Connection, Engine

from lr_client.wait_replicated import lost, token_of
from queues.database import schema
from queues.database.engine_check import require_engine
from queues.database.transactions import reading
from queues.errors import TransientError, UsageError, VersionLostError
from queues.lineage import trace
from queues.positions import Position, PositionToken
from queues.send_log.history import end_covering, lineage


def position_of(engine: Engine, token: PositionToken | str) -> Position:
    """Return the position in the log of this site, the source, up to which everything includes *token*.

    The position ends a tick, so entries of other transactions may be before it. Once the ticks up to there are trimmed,
    the result is the end of the oldest kept tick.

    Raises:
        VersionLostError: a promotion or a restore of this site has lost the transaction.
        TransientError: the transaction is in no tick yet. The server makes one shortly after the commit.
        InvalidPositionError: *token* is neither a token nor its text.
        UsageError: the token is one of another site, or *engine* is no engine.
        SetupError: the database has no lrq tables.

    Example:
        >>> position_of(engine, token).seq
        17
    """
    require_engine(engine, "position_of")
    wanted = token_of(token)
    with reading(engine, snapshot=True) as connection:
        own = schema.site(connection, None).site_id
        if wanted.site != own:
            raise UsageError(f"the token {wanted} is one of site {wanted.site!r}, and this is {own!r}: ask there")
        found = _covering(connection, wanted)
    if found is None:
        raise TransientError(
            f"no tick has the transaction of {wanted} yet: ask again once it is committed and the server works"
        )
    return found


def _covering(connection: Connection, token: PositionToken) -> Position | None:
    found = trace(lineage(connection), token.branch, token.timeline, token.transaction)
    if found.is_lost:
        raise VersionLostError(lost(token))
    ends = ((holder, end_covering(connection, holder, token.transaction)) for holder in found.holders)
    return next((Position(holder, end) for holder, end in ends if end is not None), None)
