"""The entry that an application receives: proto3 cannot say "required", so this module checks it. Pure."""

from google.protobuf.message import DecodeError

from queues.errors import CorruptFrameError
from queues.names import ClientName, SiteId
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, NONE, SNAPSHOT_SYNC, RoutingTableEntryMsg

_REQUIRED = ("type", "opaque_payload")


def encode_entry(entry: RoutingTableEntryMsg) -> bytes:
    """Return *entry* as bytes; raise `CorruptFrameError` that names the required field it lacks."""
    _check(entry)
    return entry.SerializeToString()


def decode_entry(data: bytes) -> RoutingTableEntryMsg:
    """Undo `encode_entry`; raise `CorruptFrameError` for bytes that are no complete entry."""
    try:
        entry = RoutingTableEntryMsg.FromString(data)
    except DecodeError as error:
        raise CorruptFrameError(f"{len(data)} bytes are not a routing table entry: {error}") from error
    _check(entry)
    return entry


def _check(entry: RoutingTableEntryMsg) -> None:
    for field in _REQUIRED:
        if not entry.HasField(field):  # type: ignore[arg-type]
            raise CorruptFrameError(f"a routing table entry lacks its required field {field}")
    if entry.type == NONE:
        raise CorruptFrameError("a routing table entry has the type NONE, which is never stored")


def received_entry(
    *,
    source: SiteId,
    client: ClientName,
    sequence: int,
    payload: bytes,
    item_key: str | None = None,
    transaction: int = 0,
    commit_time_us: int = 0,
    branch: str = "",
    sync_id: str = "",
) -> RoutingTableEntryMsg:
    """Build the entry that a listener is given; with a *sync_id* it is one of that snapshot, else of the log.

    *sequence* is the log's sequence number or the snapshot's row number (from 1), *transaction* the same for all
    entries of one source transaction, *commit_time_us* microseconds since 1970 at the source (0 in a snapshot).
    """
    return RoutingTableEntryMsg(
        type=SNAPSHOT_SYNC if sync_id else LOG_ENTRY_SYNC,
        opaque_payload=payload,
        source_id=source,
        client_name=client,
        sequence=sequence,
        transaction=transaction,
        commit_time_us=commit_time_us,
        item_key=item_key,
        branch=branch,
        sync_id=sync_id,
    )
