"""Messages on libpq's connection: several statements in one message, and waits that block no other thread."""

import select
import selectors
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

from queues.database.postgresql.prepared_statements import BINARY, Prepared

# A constant of libpq: PIPELINE_SYNC.
_SYNCED: Final = 10


def ask(driver: Any, *groups: Sequence[Prepared]) -> list[Any]:  # noqa: ANN401 - a driver's
    """Send *groups* of statements; return libpq's results, in the binary format. An error closes *driver*."""
    try:
        return _send(driver.pgconn, groups)
    except BaseException:
        # Otherwise the next statements would receive the answers to these ones.
        driver.close()
        raise


def _send(wire: Any, groups: Sequence[Sequence[Prepared]]) -> list[Any]:  # noqa: ANN401 - a driver's
    # After a failed statement, PostgreSQL skips the rest of its group. Without a BEGIN, each group is a transaction.
    wire.enter_pipeline_mode()
    for group in groups:
        for name, values, formats in group:
            wire.send_query_prepared(name, values, formats, BINARY)
        wire.pipeline_sync()
    results = []
    for _ in groups:
        # A None follows each result, and the answer to the sync follows all results of a group.
        while (result := _next(wire)) is None or result.status != _SYNCED:
            if result is not None:
                results.append(result)
    wire.exit_pipeline_mode()
    return results


def answered_while(driver: Any, asked: Prepared, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - a driver's
    """Send one statement, call *meanwhile*, and return libpq's result. An error of that call closes *driver*."""
    wire = driver.pgconn
    try:
        wire.send_query_prepared(asked.name, asked.values, asked.formats, BINARY)
        # A statement that does not leave at once leaves later: then `meanwhile` only comes earlier.
        wire.flush()
        meanwhile()
        result = _next(wire)
        while _next(wire) is not None:
            pass
    except BaseException:
        # Otherwise the next statement would receive the answer to this one.
        driver.close()
        raise
    return result


def _next(wire: Any) -> Any:  # noqa: ANN401 - a driver's
    """Wait for the next result without blocking other threads."""
    while wire.flush():
        # The server may stop receiving until its answers are read.
        _wait(wire.socket, EVENT_READ | EVENT_WRITE)
        wire.consume_input()
    while wire.is_busy():
        _wait(wire.socket, EVENT_READ)
        wire.consume_input()
    return wire.get_result()


def _wait(socket: int, events: int) -> None:
    if events == EVENT_READ and hasattr(select, "poll"):
        # For one socket, poll is the fastest means, and a selector around it doubles the cost.
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        waiting.poll()
        return
    with selectors.DefaultSelector() as selector:
        selector.register(socket, events)
        selector.select()
