"""A resend that is interrupted before one of its commits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event


class InterruptedCommitError(Exception):
    """The commit that the test prevents."""


@contextmanager
def interrupted(engine: Engine, changes: int) -> Iterator[None]:
    """Let *changes* changes of an order be committed. The commit of the next one fails and ends the block."""
    seen = 0

    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal seen
        seen += statement.startswith(("INSERT INTO lrq_resends", "UPDATE lrq_resends"))

    def fail(_: object) -> None:
        if seen > changes:
            raise InterruptedCommitError

    event.listen(engine, "before_cursor_execute", count)
    event.listen(engine, "commit", fail)
    try:
        with pytest.raises(InterruptedCommitError):
            yield
    finally:
        event.remove(engine, "before_cursor_execute", count)
        event.remove(engine, "commit", fail)
