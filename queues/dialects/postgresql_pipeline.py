"""libpq's pipeline: several prepared statements in one message, and all their results in the next."""

import selectors
from collections.abc import Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, NamedTuple


class Prepared(NamedTuple):
    """A prepared statement by its name, and its values, each in the text or the binary format."""

    name: bytes
    values: Sequence[bytes | None]
    formats: Sequence[int]


#: Formats. In the text format a value becomes what its place in the statement asks for.
TEXT: Final = 0
BINARY: Final = 1


def ask(wire: Any, statements: Sequence[Prepared]) -> list[Any]:  # noqa: ANN401 - a driver's
    """Send *statements* on the connection *wire* of libpq; return a result for each, as libpq has it, in BINARY."""
    wire.enter_pipeline_mode()
    for name, values, formats in statements:
        wire.send_query_prepared(name, values, formats, BINARY)
    wire.pipeline_sync()
    results = []
    # After each result comes a None; after all of them what answers the sync.
    while (result := _next(wire)) is None or result.status != _SYNCED:
        if result is not None:
            results.append(result)
    wire.exit_pipeline_mode()
    return results


def _next(wire: Any) -> Any:  # noqa: ANN401 - a driver's
    """Return the next result as soon as it is there; other threads work until then."""
    while wire.flush():
        # The server may want to be read before it takes more.
        _wait(wire.socket, EVENT_READ | EVENT_WRITE)
        wire.consume_input()
    while wire.is_busy():
        _wait(wire.socket, EVENT_READ)
        wire.consume_input()
    return wire.get_result()


def _wait(socket: int, events: int) -> None:
    # The quickest of its kind for one socket.
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        selector.register(socket, events)
        selector.select()


# Of libpq, whose module is there only with the driver.
_SYNCED: Final = 10  # PIPELINE_SYNC
