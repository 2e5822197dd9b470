"""`exactly_once` refuses a batch if the application's function ends its transaction."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from lr_client.spark import exactly_once
from queues.errors import ListenerError
from tests.lr_client.spark.sources.applying import apply, streamed, told
from tests.lr_client.spark.sources.taking import url_of


class Row(NamedTuple):
    """A row of lrq_receive."""

    sequence: int
    payload: bytes
    client: str = "policy"
    source: str = "tokyo"
    kind: str = "log"
    sync_id: str = ""
    branch: str = "branch-1"


class Frame:
    """The part of a DataFrame that `exactly_once` uses."""

    columns = Row._fields

    def toLocalIterator(self, prefetchPartitions: bool) -> Iterator[Row]:  # noqa: N802, N803
        return iter([Row(1, b"e1"), Row(2, b"e2")])


def say(statement: str) -> Callable[[Connection], None]:
    return lambda connection: connection.execute(text(statement))


def driver_rollback(connection: Connection) -> None:
    connection.connection.dbapi_connection.rollback()


@pytest.mark.parametrize("own", [True, False], ids=["URL", "engine of lrq"])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize(("end", "kept"), [(say("ROLLBACK"), []), (driver_rollback, []), (say("COMMIT"), ["e1", "e2"])])
def test_a_batch_whose_transaction_ends_is_refused_and_applied_on_the_next_try(
    sink: Engine, end: Callable[[Connection], None], kept: list[str], raises: bool, own: bool
) -> None:
    streamed.metadata.create_all(sink)

    def meddle(connection: Connection, entries: Sequence[Any]) -> None:
        apply(connection, entries)
        end(connection)
        if raises:
            raise ValueError("cannot apply this")

    database = create_engine(url_of(sink)) if own else sink
    with pytest.raises(ListenerError, match="ended the transaction of its batch") as told_error:
        exactly_once("test", database, meddle)(Frame(), 0)
    assert isinstance(told_error.value.__cause__, ValueError) is raises
    assert told(sink) == kept
    for _ in range(2):
        exactly_once("test", database, apply)(Frame(), 1)
    assert told(sink) == [*kept, "e1", "e2"]
    if own:
        database.dispose()


def test_savepoints_of_the_application_do_not_end_the_transaction(sink: Engine) -> None:
    streamed.metadata.create_all(sink)

    def careful(connection: Connection, entries: Sequence[Any]) -> None:
        with connection.begin_nested() as savepoint:
            apply(connection, entries)
            savepoint.rollback()
        with connection.begin_nested():
            apply(connection, entries)

    exactly_once("test", sink, careful)(Frame(), 0)
    assert told(sink) == ["e1", "e2"]
