"""The calls of all senders to SQLite: the statement with the keys of this connection, and the token."""

import secrets
from collections.abc import Sequence
from typing import Final

from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.sqlite.transmit_call import transmit_rows
from queues.send_log.wakeup import wake_other_process

_PROCESS: Final = secrets.token_hex(8)


def sqlite_call(
    connection: object, client: ClientName, entries: Sequence[NewEntry], mark: str, *, begun: bool
) -> tuple[str, list[tuple[object, ...]]]:
    """Return the statement for one entry, and its values for each of *entries*; *begun* as for `transmit_rows`."""
    owner, call = f"{_PROCESS}-{id(connection):x}", secrets.token_hex(8)
    return transmit_rows(client, entries, mark, owner=owner, call=call, begun=begun)


def sqlite_token(text: str | bytes) -> PositionToken:
    """Return the token in *text*, and wake the server of its branch in another process."""
    # The connection's own conversion of texts may return bytes.
    token = PositionToken.parse(text.decode() if isinstance(text, bytes) else text)
    wake_other_process(token.branch)
    return token
