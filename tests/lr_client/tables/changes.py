"""Changes of rows as `lrq_follow` sends them."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine

from lr_client.subscriber import listener_session
from lr_client.tables.copied_tables import CopiedTables
from queues.wire.entry_pb2 import RoutingTableEntryMsg


def change(table: str, *, old: dict[str, Any] | None = None, row: dict[str, Any] | None = None) -> bytes:
    """Return the payload of an insert (*row*), a delete (*old*) or an update (both)."""
    op = "delete" if row is None else "insert" if old is None else "update"
    found = {"table": table, "op": op, "row": row, "old": old}
    return json.dumps({name: part for name, part in found.items() if part is not None}).encode()


def apply(engine: Engine, copies: CopiedTables, *payloads: bytes, source: str = "paris") -> None:
    """Call *copies* with *payloads* in one transaction, as a subscription does."""
    entries: Sequence[Any] = [RoutingTableEntryMsg(opaque_payload=payload) for payload in payloads]
    with listener_session.transaction(engine) as session:
        assert copies.process_updates_in_log_entry_sync(session, source, entries) is True


def begin_snapshot(engine: Engine, copies: CopiedTables, source: str = "paris") -> None:
    with listener_session.transaction(engine) as session:
        copies.on_snapshot_sync_start(session, source)
