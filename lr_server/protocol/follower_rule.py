"""Whether producers' messages may be stored while synchronous standby servers are missing. Pure."""


def may_take(required: int, followers: int, *, enough_at: float | None, now: float, stall_seconds: float) -> bool:
    """Tell whether messages may be stored now; the answer to them waits for a standby server in any case.

    The newest look found *followers*, and *required* are needed. *enough_at* is the moment of the newest look that
    found enough of them, None if no look has. Times are seconds of one clock.

    A short gap, such as the restart of a standby server, refuses nothing. At the start no gap is known to be short.
    """
    if followers >= required:
        return True
    return enough_at is not None and now - enough_at < stall_seconds
