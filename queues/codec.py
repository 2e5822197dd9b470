"""Build the entries that an application receives. Pure."""

from collections.abc import Mapping

from queues.names import ClientName, SiteId
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, SNAPSHOT_SYNC, RoutingTableEntryMsg


def received_entry(
    *,
    source: SiteId,
    client: ClientName,
    sequence: int,
    payload: bytes,
    item_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    partition_key: str | None = None,
    transaction: int = 0,
    commit_time_us: int = 0,
    branch: str = "",
    sync_id: str = "",
) -> RoutingTableEntryMsg:
    """Build an entry for a listener: of the snapshot *sync_id*, or of the log if that is empty.

    *sequence* is the log's sequence number, or the snapshot's row number, from 1. *transaction* is equal for all
    entries of one source transaction, and of transactions joined by a replaced entry. *commit_time_us* is in
    microseconds since 1970 at the source; 0 in a snapshot.
    """
    entry = RoutingTableEntryMsg(
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
    # Even an absent argument of a message costs time.
    if headers:
        entry.headers.update(headers)
    if partition_key is not None:
        entry.partition_key = partition_key
    return entry
