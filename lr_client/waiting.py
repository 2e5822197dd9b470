"""Waiting, at a sink, until the subscriber has applied a transaction of the source: read-your-own-writes."""

import threading
from typing import Final

from sqlalchemy import Connection, Engine, select

from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import WaitTimeoutError
from queues.positions import Mark, PositionToken
from queues.receive.consuming import APPLIED_SEQ, IN_LOG
from queues.receive.newest import newest
from queues.tables import consumers, receive_headers, receive_marks, receive_queues
from queues.transactions import reading

_PAUSE: Final = 0.01


def wait_applied(engine: Engine, token: PositionToken | str, timeout: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Wait until this site's subscriber has applied everything up to *token*; at most *timeout* seconds.

    *token* is what `transmit_log_entry_message` returned at the source, or its text. Raises `WaitTimeoutError` when
    it has not happened in time, `InvalidPositionError` for a text that is no token.

    Example:
        >>> wait_applied(engine, token, timeout=5.0)
    """
    wanted = PositionToken.parse(token) if isinstance(token, str) else token
    deadline = clock.monotonic() + timeout
    never = threading.Event()
    while True:
        with reading(engine, snapshot=True) as connection:
            if _applied(connection, wanted):
                return
        if clock.monotonic() >= deadline:
            raise WaitTimeoutError(
                f"after {timeout} s this site has not applied {wanted} yet: is a subscriber of "
                f"{wanted.client!r} running, and does {wanted.site!r} replicate to here?"
            )
        clock.wait(never, _PAUSE)


def _applied(connection: Connection, token: PositionToken) -> bool:
    own = (receive_queues.c.client == token.client, receive_queues.c.source == token.site)
    own_id = select(receive_queues.c.queue_id).where(*own).scalar_subquery()
    consumed = connection.execute(
        select(
            consumers,
            APPLIED_SEQ.label("applied_seq"),
            receive_marks.c.sync_id.label("newest_sync_id"),
            receive_marks.c.cut,
            receive_marks.c.branch.label("cut_branch"),
        )
        .join_from(consumers, receive_marks, receive_marks.c.queue_id == consumers.c.queue_id)
        .where(consumers.c.queue_id == own_id, newest(consumers, own_id), newest(receive_marks, own_id))
    ).first()
    if consumed is None:
        return False
    in_sync = consumed.phase == IN_LOG and consumed.sync_id == consumed.newest_sync_id
    cut = consumed.cut if in_sync and consumed.cut_branch == token.branch else ""
    header_mark = connection.execute(
        select(receive_headers.c.mark)
        .where(
            receive_headers.c.queue_id == consumed.queue_id,
            receive_headers.c.branch == token.branch,
            receive_headers.c.seq <= consumed.applied_seq,
        )
        .order_by(receive_headers.c.seq.desc())
        .limit(1)
    ).scalar()
    return any(Mark.parse(mark).surely_covers(token.transaction) for mark in (cut, header_mark) if mark)
