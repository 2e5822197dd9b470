"""A consumer of PgQ's framework, run by the distribution's Python: `python3 -I pgq_consumer.py <settings file>`.

Imports nothing of this project, because that Python does not have it.
"""

import sys
from typing import Any

import pgq


class Deliver(pgq.Consumer):  # type: ignore[misc]
    """Inserts one event at a time, and commits each batch at the destination before PgQ finishes it."""

    def reload(self) -> None:
        """Read the settings; choose the events of this destination."""
        super().reload()
        self.consumer_filter = f"(ev_extra1::bigint & {self.cf.getint('mask')}) <> 0"

    def process_batch(self, db: Any, batch_id: int, event_list: Any) -> None:  # noqa: ANN401 - untyped
        """Apply a batch and commit it."""
        super().process_batch(db, batch_id, event_list)
        self.get_database("sink_db").commit()

    def process_event(self, db: Any, event: Any) -> None:  # noqa: ANN401, ARG002 - untyped
        """Apply one event."""
        cursor = self.get_database("sink_db").cursor()
        cursor.execute(
            "INSERT INTO entries VALUES (%s, convert_to(%s, 'UTF8')) ON CONFLICT DO NOTHING",
            [event.ev_id, event.ev_data],
        )


if __name__ == "__main__":
    Deliver("deliver", "db", sys.argv[1:]).start()
