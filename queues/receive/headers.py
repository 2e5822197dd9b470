"""Look up the headers of a receive queue: branches and visibility by sequence number."""

from sqlalchemy import Connection, func, select

from queues.database.tables.receive import receive_headers
from queues.receive.entries import KEPT_HEADERS


def branch_of(connection: Connection, queue_id: int, seq: int) -> str | None:
    """Return the branch of the tick that holds entry *seq*; None after the last header."""
    own = (receive_headers.c.queue_id == queue_id, receive_headers.c.seq >= seq)
    holding = select(receive_headers.c.branch).where(*own).order_by(receive_headers.c.seq).limit(1)
    return connection.execute(holding).scalar()


def is_of_another_branch(connection: Connection, queue_id: int, branch: str, seq: int) -> bool:
    """Return whether entry *seq* surely belongs to another branch than *branch*; False if its header may be deleted."""
    own = receive_headers.c.queue_id == queue_id
    later = select(receive_headers.c.seq, receive_headers.c.branch).where(own, receive_headers.c.seq >= seq)
    newer = connection.execute(later.order_by(receive_headers.c.seq).limit(KEPT_HEADERS)).all()
    if not newer or newer[0].branch == branch or len(newer) == KEPT_HEADERS:
        return False
    # Headers before the newest ones are pruned, and those before a passed cut are deleted from the oldest on.
    older = select(receive_headers.c.seq).where(own, receive_headers.c.seq < newer[0].seq).limit(1)
    return connection.execute(older).first() is not None


def end_of_branch(connection: Connection, queue_id: int, branch: str) -> int:
    """Return the last sequence number with a header of *branch*; at least one must exist."""
    own = (receive_headers.c.queue_id == queue_id, receive_headers.c.branch == branch)
    return int(connection.execute(select(func.max(receive_headers.c.seq)).where(*own)).scalar_one())


def mark_within(connection: Connection, queue_id: int, branch: str, seq: int) -> str | None:
    """Return the visibility (as text) of the last tick of *branch* that ends at or before *seq*."""
    own = (receive_headers.c.queue_id == queue_id, receive_headers.c.branch == branch, receive_headers.c.seq <= seq)
    last = select(receive_headers.c.mark).where(*own).order_by(receive_headers.c.seq.desc()).limit(1)
    return connection.execute(last).scalar()
