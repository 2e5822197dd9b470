"""The further conditions under which the leader of a ring trims a segment of its log."""

from sqlalchemy import Connection

from queues.send_log.links import unclaimed
from queues.send_log.port import Retention
from queues.send_log.segments import Verdict, behind, is_beyond


def may_go(connection: Connection, verdict: Verdict, upto: int, retention: Retention) -> bool:
    """Return whether a segment may go whose ticks both followers hold up to number *upto*.

    Sessions without entries in the segment count too: the next leader does not know that they have none. So within
    retention each sink acknowledges the whole segment first.
    """
    if verdict.upto.number > upto:
        return False
    if is_beyond(connection, verdict.upto, retention):
        return True
    free = unclaimed(connection)
    claims = behind(connection, verdict.upto, retention)
    return all(claim.is_unknown or claim.owed in free for claim in claims)
