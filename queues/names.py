"""Every queue name and stream tag is built and parsed here, and nowhere else (seed 004)."""

import re
import unicodedata
from typing import Final, NewType

from queues.errors import InvalidNameError

SiteId = NewType("SiteId", str)
ClientName = NewType("ClientName", str)

SEND_LOG_ENTRIES: Final = "LRQ_Send_LogEntries"
SEND_SNAP_SYNC: Final = "LRQ_Send_SnapSync"

_RECEIVE_PREFIX: Final = "LRQ_Recv_"
_LOG_ENTRY_TAG: Final = "lrq_logentry_"
_SNAP_SYNC_TAG: Final = "lrq_snapsync_"
_RECEIVE_TAG: Final = "lrq_recv_"

#: Longest site id or client name, in characters.
MAX_NAME_LENGTH: Final = 64
#: Separates destinations in the canonical form of a set; no id can contain it.
SET_SEPARATOR: Final = ","

_WORD = re.compile(r"\w[\w.\-]*\Z")
_NAME_RULE = (
    f"use 1 to {MAX_NAME_LENGTH} letters, digits, '_', '-' or '.', "
    "beginning with a letter, a digit or '_', in Unicode normal form C"
)


def _checked(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidNameError(f"{what} must be a string, not {type(value).__name__}")
    if len(value) > MAX_NAME_LENGTH or not _WORD.match(value) or not _is_normal(value):
        raise InvalidNameError(f"{value[: MAX_NAME_LENGTH + 1]!r} is not a valid {what}: {_NAME_RULE}")
    return value


def _is_normal(value: str) -> bool:
    return value.isascii() or unicodedata.is_normalized("NFC", value)


def site_id(value: object) -> SiteId:
    """Return *value* as a site id; raise `InvalidNameError` (a `ValueError`) with the rule if it is none."""
    return SiteId(_checked(value, "site id"))


def client_name(value: object) -> ClientName:
    """Return *value* as a client name; raise `InvalidNameError` (a `ValueError`) with the rule if it is none."""
    return ClientName(_checked(value, "client name"))


def receive_queue(client: ClientName, source: SiteId) -> str:
    """Name the queue that holds what *source* sent for *client* (seed 004: `LRQ_Recv_<client_name>_<remote_id>`)."""
    return f"{receive_queue_prefix(client)}{source}"


def receive_queue_prefix(client: ClientName) -> str:
    """Return what the names of *client*'s receive queues, and of no other client's, begin with.

    A `_` of the client's own is written `%5F`, so that `policy` never matches `policy_v2`.
    """
    return f"{_RECEIVE_PREFIX}{client.replace('_', '%5F')}_"


def parse_receive_queue(name: str) -> tuple[ClientName, SiteId]:
    """Undo `receive_queue`; raise `InvalidNameError` for any other string."""
    client, separator, source = name.removeprefix(_RECEIVE_PREFIX).partition("_")
    if not name.startswith(_RECEIVE_PREFIX) or not separator:
        raise InvalidNameError(f"{name!r} is not the name of a receive queue ({_RECEIVE_PREFIX}<client>_<source>)")
    return client_name(client.replace("%5F", "_")), site_id(source)


def log_entry_tag(destination: SiteId) -> str:
    """Return the stream tag of a log entry that *destination* is owed."""
    return _LOG_ENTRY_TAG + destination


def snap_sync_tag(destination: SiteId) -> str:
    """Return the stream tag of a snapshot entry that *destination* is owed."""
    return _SNAP_SYNC_TAG + destination


def receive_tag(client: ClientName) -> str:
    """Return the one stream tag that the sink gives to everything it receives for *client*."""
    return _RECEIVE_TAG + client
