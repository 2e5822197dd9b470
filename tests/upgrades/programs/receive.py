"""Apply entries to the table `applied` until standard input ends: receive.py URL."""

import sys

from sqlalchemy import text

import queues
from lr_client import RoutingQueueListener, subscribe


class Apply(RoutingQueueListener):
    """Inserts a row for each entry."""

    client_name = "policy"

    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        """Refuse: no snapshot is expected."""
        return False

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        """Insert the numbers in their order."""
        for entry in entries:
            session.execute(
                text("INSERT INTO applied (number) VALUES (:number)"), {"number": int(entry.opaque_payload)}
            )
        return True


(url,) = sys.argv[1:]
subscription = subscribe(queues.create_engine(url), Apply(), poll_interval=0.05)
sys.stdin.read()
subscription.close()
