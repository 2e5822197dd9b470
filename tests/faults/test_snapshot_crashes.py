"""The sink's database crashes while a snapshot arrives: staged rows may be lost, a published snapshot never is."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event

from queues.database.transactions import reading
from queues.names import site_id
from queues.positions import Position
from sink import SinkWriter
from tests.faults.database_crashes import CrashingDatabase
from tests.sink.conftest import accepted, staged_rows, talk
from tests.sink.frames import BRANCH, begin, chunk, end, request

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

ROWS = [b"row %d" % number for number in range(1, 9)]
END = end("s1", ROWS, base=Position(BRANCH, 10, "id/12"))


@pytest.fixture
def database() -> Iterator[CrashingDatabase]:
    # A role of its own runs the server, and cannot enter the folders of pytest.
    with tempfile.TemporaryDirectory(prefix="lrq-crash-") as folder:
        made = CrashingDatabase(Path(folder))
        yield made
        made.stop()


def staged(engine: Engine) -> list[bytes]:
    with reading(engine) as connection:
        return [payload for _, _, payload in staged_rows(connection)]


def test_a_snapshot_goes_on_from_the_rows_that_a_crash_has_left(database: CrashingDatabase) -> None:
    accepted(talk(SinkWriter(database.engine, site_id("tokyo")), begin("s1"), chunk("s1", 1, ROWS[:3])))
    kept = database.synced()
    accepted(talk(SinkWriter(database.engine, site_id("tokyo")), chunk("s1", 4, ROWS[3:6])))
    database.crash(forget_after=kept)
    restarted = SinkWriter(database.engine, site_id("tokyo"))
    left = restarted.negotiate(request()).staging.rows
    assert left in (0, 3)
    assert staged(database.engine) == ROWS[:left]
    accepted(talk(restarted, begin("s1"), chunk("s1", left + 1, ROWS[left:]), END))
    # No later commit has made the publication durable.
    database.crash(forget_after=database.synced())
    assert SinkWriter(database.engine, site_id("tokyo")).negotiate(request()).sync_id == "s1"
    assert staged(database.engine) == ROWS


def test_a_stream_ends_at_its_first_row_after_the_lost_ones(database: CrashingDatabase) -> None:
    writer = SinkWriter(database.engine, site_id("tokyo"))

    def frames() -> Iterator[object]:
        yield begin("s1")
        yield chunk("s1", 1, ROWS[:3])
        kept = database.synced()
        yield chunk("s1", 4, ROWS[3:6])
        database.crash(forget_after=kept)
        yield chunk("s1", 7, ROWS[6:])
        yield END

    writer.negotiate(request())
    *before, last = writer.replicate(frames())  # type: ignore[arg-type]
    assert [ack.staging.rows for ack in before] == [0, 3, 6]
    assert last.HasField("refusal")
    assert staged(database.engine) in ([], ROWS[:3])


def test_only_the_rows_of_a_snapshot_do_not_wait_for_the_disk(database: CrashingDatabase) -> None:
    waits: list[str] = []

    def note(connection: Connection) -> None:
        waits.append(str(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()))

    writer = SinkWriter(database.engine, site_id("tokyo"))
    accepted(talk(writer, begin("s1"), chunk("s1", 1, ROWS[:3])))
    event.listen(database.engine, "commit", note)
    accepted(talk(writer, chunk("s1", 4, ROWS[3:6]), chunk("s1", 7, ROWS[6:]), END))
    # The negotiation, two chunks, and the publication.
    assert waits[-4:] == ["on", "off", "off", "on"]
