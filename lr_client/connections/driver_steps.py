"""The steps of a call on SQLite: a generator yields statements, and the driver executes one after the other.

So one description of a call serves drivers that wait and drivers that do not. An error of a step is thrown into the
generator, which then undoes the entries of the call.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from queues.positions import PositionToken
from queues.send_log.sqlite.transmit_call import RELEASE, SAVE, UNDO, begin


class Step(NamedTuple):
    """A statement, and its values for each repetition; without values, it is carried out once and its row is asked."""

    statement: str
    rows: Sequence[tuple[object, ...]] = ()


class HasTransaction(Protocol):
    """A connection of SQLite that tells whether a transaction has begun."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        ...


def insert_steps(connection: object, insert: Step, *, begun: bool) -> Generator[Step, Any, None]:
    """Yield the steps that carry out *insert* for all its rows or for none; *begun*: a transaction has begun."""
    if len(insert.rows) == 1:
        yield insert
        return
    if not begun:
        # Otherwise the savepoint would be the transaction, and its release the commit.
        yield Step(begin(connection))
    yield Step(SAVE)
    try:
        yield insert
    except Exception:
        yield Step(UNDO)
        yield Step(RELEASE)
        raise
    yield Step(RELEASE)


def carry_out(
    steps: Generator[Step, Any, PositionToken],
    cursor: Any,  # noqa: ANN401 - of sqlite3, or of Django without types
    connection: HasTransaction,
) -> PositionToken:
    """Carry out *steps* one after the other on *cursor*, and return their token; errors of the driver pass."""
    go_on: Callable[[], Step] = partial(steps.send, None)
    while True:
        try:
            statement, rows = go_on()
        except StopIteration as ended:
            return token_of(ended)
        try:
            row = None
            if rows:
                cursor.executemany(statement, rows)
            else:
                cursor.execute(statement)
                row = cursor.fetchone()
            go_on = partial(steps.send, row)
        except Exception as error:  # noqa: BLE001 - thrown into the steps, which raise it again
            go_on = thrown(steps, error, connection)


def thrown(
    steps: Generator[Step, Any, PositionToken], error: Exception, connection: HasTransaction
) -> Callable[[], Step]:
    """Return the next step after *error*; raise it if SQLite itself has ended the transaction."""
    if not connection.in_transaction:
        raise error
    return partial(steps.throw, error)


def token_of(ended: StopIteration) -> PositionToken:
    """Return the token that the steps have returned."""
    token: PositionToken = ended.value
    return token
