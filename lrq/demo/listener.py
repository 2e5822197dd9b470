"""The application at a sink: it keeps a copy of the airports addressed to its site."""

import json
from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.orm import Session

from lr_client import RoutingQueueListener, RoutingTableEntryMsg
from lrq.demo.airports import Airport
from lrq.demo.latency import Stopwatch
from lrq.demo.sites import CLIENT
from lrq.demo.tally import Tally


class AirportListener(RoutingQueueListener):
    """Applies the entries of Paris; the changes commit in one transaction with the removal of the entries."""

    client_name = CLIENT

    def __init__(self, site: str, stopwatch: Stopwatch) -> None:
        """Apply the entries for *site*."""
        self._site = site
        self._stopwatch = stopwatch

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        """Delete all rows: the snapshot replaces them."""
        session.execute(delete(Airport))
        session.execute(delete(Tally))

    def process_updates_in_snapshot_sync(
        self,
        session: Session,
        source_id: str,
        entries: Sequence[RoutingTableEntryMsg],
    ) -> bool:
        """Insert the rows of the snapshot."""
        for entry in entries:
            match json.loads(entry.opaque_payload):
                case {"upsert": facts}:
                    session.add(Airport(**facts))
                case {"tally": counts}:
                    session.add(Tally(**counts, entries_at_cut=counts["entries"]))
        return True

    def process_updates_in_log_entry_sync(
        self,
        session: Session,
        source_id: str,
        entries: Sequence[RoutingTableEntryMsg],
    ) -> bool:
        """Apply the changes after the snapshot."""
        tally = session.get_one(Tally, self._site)
        for entry in entries:
            match json.loads(entry.opaque_payload):
                case {"upsert": facts}:
                    session.merge(Airport(**facts))
                case {"delete": code}:
                    session.delete(session.get_one(Airport, code))
            tally.count(entry.opaque_payload)
        self._stopwatch.await_commit(session, entries)
        return True
