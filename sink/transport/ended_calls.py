"""Calls of gRPC that have ended by an error."""


def let_go(error: Exception) -> None:
    """Let Python free the call of *error* as soon as nothing names it; its traceback is lost.

    gRPC raises the call itself, whose traceback names the call again. So only the garbage collector would free the
    call, at the latest at the end of the process. There the call waits for its lock. A thread of gRPC may have ended
    with the lock in its hands, and then the process never ends.
    """
    error.__traceback__ = None
