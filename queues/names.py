"""The only place where names of queues and stream tags are built (docs/design.md, "Names")."""

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

#: The longest site id or client name, in characters.
MAX_NAME_LENGTH: Final = 64
#: Separates the destinations in the canonical text of a set; a site id never contains a comma.
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
    """Return *value* as a site id; raise `InvalidNameError` (a `ValueError`) with the rule if it is malformed."""
    return SiteId(_checked(value, "site id"))


def client_name(value: object) -> ClientName:
    """Return *value* as a client name; raise `InvalidNameError` (a `ValueError`) with the rule if it is malformed."""
    return ClientName(_checked(value, "client name"))


def producer_name(value: object) -> str:
    """Return *value* as a producer's name; raise `InvalidNameError` (a `ValueError`) if it is malformed."""
    return _checked(value, "producer name")


def receive_queue(client: ClientName, source: SiteId) -> str:
    """Return the name of the queue for *client*'s entries from *source*: `LRQ_Recv_<client>_<source>`."""
    return f"{receive_queue_prefix(client)}{source}"


def receive_queue_prefix(client: ClientName) -> str:
    """Return the prefix that only the receive queues of *client* have.

    Each `_` in the client's name becomes `%5F`, so that the prefix of `policy` never matches a queue of `policy_v2`.
    """
    return f"{_RECEIVE_PREFIX}{client.replace('_', '%5F')}_"


def log_entry_tag(destination: SiteId) -> str:
    """Return the stream tag of log entries for *destination*."""
    return _LOG_ENTRY_TAG + destination


def snap_sync_tag(destination: SiteId) -> str:
    """Return the stream tag of snapshot entries for *destination*."""
    return _SNAP_SYNC_TAG + destination


def receive_tag(client: ClientName) -> str:
    """Return the stream tag that the sink gives to every received entry of *client*."""
    return _RECEIVE_TAG + client
