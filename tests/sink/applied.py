"""A sink that has applied entries of tokyo without a subscriber, for tests of replays."""

from sqlalchemy import Engine, insert

from queues.database.tables.consumers import consumers
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.receive import replay_marks
from sink import SinkWriter
from tests.sink.conftest import talk
from tests.sink.frames import BRANCH, batch, session, tick

BY = {"source": "tokyo", "sink": "paris"}


def apply_five(engine: Engine) -> None:
    """Receive and apply five entries of policy from tokyo, in ticks that end at 3 and 5; the listener undoes."""
    frame = batch(0, tick(0, 3, [b"x"] * 3), tick(3, 5, [b"x"] * 2), by=session(**BY))
    talk(SinkWriter(engine, SiteId("paris")), frame)
    with writing(engine) as connection:
        found = replay_marks.read_marks(connection, ClientName("policy"), SiteId("tokyo"))
        assert found is not None
        marks = {"version": 0, "generation": 0, "phase": "log", "sync_id": "", "row_no": 0, "branch": BRANCH, "seq": 5}
        more = {"applied_total": 5, "undoes": True, "back_seq": -1, "updated_us": 0}
        connection.execute(insert(consumers).values(queue_id=found.queue_id, **marks, **more))
