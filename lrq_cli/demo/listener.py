"""The application at a sink: it keeps its own table of airports as Paris tells it to."""

import json
from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.orm import Session

from lr_client import RoutingQueueListener, RoutingTableEntryMsg
from lrq_cli.demo.airports import Airport
from lrq_cli.demo.latency import Stopwatch
from lrq_cli.demo.sites import CLIENT
from lrq_cli.demo.tally import Tally


class AirportListener(RoutingQueueListener):
    """Applies what Paris has written. Its changes commit in one transaction with the removal of the entries."""

    client_name = CLIENT

    def __init__(self, site: str, stopwatch: Stopwatch) -> None:
        """Apply what *site* is owed."""
        self._site = site
        self._stopwatch = stopwatch

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        """Forget everything: the snapshot replaces it."""
        session.execute(delete(Airport))
        session.execute(delete(Tally))

    def process_updates_in_snapshot_sync(
        self,
        session: Session,
        source_id: str,
        entries: Sequence[RoutingTableEntryMsg],
    ) -> bool:
        """Take over the rows of the snapshot."""
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
        """Follow the changes made since then."""
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
