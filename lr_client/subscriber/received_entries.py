"""Build the entries that a listener receives. Pure."""

from collections.abc import Iterable

from queues.entry_headers import parse
from queues.names import ClientName, SiteId
from queues.receive.received_rows import ReceivedRow, RowColumns
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, SNAPSHOT_SYNC, RoutingTableEntryMsg


def received_entries(
    rows: Iterable[ReceivedRow], *, source: SiteId, client: ClientName, branch: str = "", sync_id: str = ""
) -> list[RoutingTableEntryMsg]:
    """Build the entries of *rows* for a listener: of the snapshot *sync_id*, or of the log if that is empty.

    An entry of a snapshot has no transaction and no commit time.
    """
    # Reading the common fields from bytes takes a third of the time of setting them in each entry.
    common = RoutingTableEntryMsg(
        type=SNAPSHOT_SYNC if sync_id else LOG_ENTRY_SYNC,
        source_id=source,
        client_name=client,
        branch=branch,
        sync_id=sync_id,
    ).SerializeToString()
    entries = []
    fields = rows.fields() if isinstance(rows, RowColumns) else rows
    for sequence, transaction, committed_us, item_key, payload, headers, partition_key in fields:
        entry = RoutingTableEntryMsg.FromString(common)
        entry.opaque_payload = payload
        entry.sequence = sequence
        if not sync_id:
            entry.transaction = transaction
            entry.commit_time_us = committed_us
        if item_key is not None:
            entry.item_key = item_key
        if headers:
            entry.headers.update(parse(headers))
        if partition_key is not None:
            entry.partition_key = partition_key
        entries.append(entry)
    return entries
