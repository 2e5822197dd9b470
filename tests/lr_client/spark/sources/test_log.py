"""The log-entry queue of a source, as a table for analysis."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from sqlalchemy import Connection, Engine, update
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lr_client.spark.errors import sentence
from lr_client.spark.log.format import LogReader
from lr_client.spark.log.ranges import LogOptions
from lr_client.spark.log.rows import LogEntry, log_pages
from lr_client.spark.log.stream import LogStream
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.site import branches
from queues.errors import NeedsFullSyncError, TrimmedError
from queues.names import ClientName, SiteId
from queues.send_log.port import Retention, SessionKey, TickLimits
from tests.lr_client.spark.sources.taking import url_of
from tests.queues.reading import Reader
from tests.queues.send_log.test_trim import stored

_PATIENCE = 60.0


@pytest.fixture
def lease(site: Engine) -> Lease:
    got = leases.acquire(site, "server", "me", ttl=600)
    assert got is not None
    return got


@pytest.fixture
def reader(site: Engine, lease: Lease) -> Reader:
    """Takes small ticks, so that a few entries make several kinds of ticks."""
    return Reader(site, lease, TickLimits(rows=4, payload_bytes=10_000))


def transmit(
    engine: Engine | Session | Connection, *payloads: bytes, to: tuple[str, ...] = ("tokyo",), client: str = "policy"
) -> None:
    if isinstance(engine, Engine):
        with Session(engine) as session, session.begin():
            transmit(session, *payloads, to=to, client=client)
        return
    sender = RoutingQueueSenderClient(client)
    for payload in payloads:
        sender.transmit_log_entry_message(engine, payload, to, item_key=f"item {payload.decode()[:9]}")


def everything(engine: Engine, reader: Reader, after: int = 0) -> list[LogEntry]:
    assert reader.last is not None
    return [entry for page in log_pages(engine, after, reader.last.end_seq) for entry in page]


def test_entries_for_all_destinations_are_read(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", b"2", to=("tokyo", "lima"))
    transmit(site, b"3", client="weather", to=("lima",))
    reader.drain()
    transmit(site, b"4")
    reader.drain()
    transmit(site, b"not in a tick yet")
    found = everything(site, reader)
    assert [(entry.payload, entry.client, entry.destinations) for entry in found] == [
        (b"1", "policy", ("lima", "tokyo")),
        (b"2", "policy", ("lima", "tokyo")),
        (b"3", "weather", ("lima",)),
        (b"4", "policy", ("tokyo",)),
    ]
    assert [entry.sequence for entry in found] == [1, 2, 3, 4]
    assert [entry.tick for entry in found] == [1, 1, 1, 2]
    assert found[0].transaction == found[1].transaction != found[2].transaction
    assert (found[0].item_key, found[0].partition_key) == ("item 1", None)
    assert {entry.branch for entry in found} == {reader.groups[0].tick.branch}
    assert all(entry.commit_time > 1_700_000_000_000_000 for entry in found)


def test_a_backlog_of_several_ticks_is_read_in_the_order_of_the_log(site: Engine, reader: Reader) -> None:
    transmit(site, b"first")
    reader.drain()
    for number in range(10):
        transmit(site, b"%d" % number, b"%d again" % number)
    transmit(site, *(b"large %d" % number for number in range(9)))
    transmit(site, b"after")
    reader.drain()
    transmit(site, b"last")
    reader.drain()
    found = everything(site, reader)
    live = [(row.payload, group.tick.number) for group in reader.groups for row in group.rows or ()]
    large = next(group.tick for group in reader.groups if group.rows is None)
    assert [(entry.payload, entry.tick) for entry in found if entry.tick != large.number] == live
    assert [entry.payload for entry in found if entry.tick == large.number] == [b"large %d" % n for n in range(9)]
    assert [entry.sequence for entry in found] == list(range(1, len(found) + 1))
    assert len(found) == 1 + 20 + 9 + 1 + 1


def test_the_entries_for_a_destination_are_those_that_name_it(site: Engine, reader: Reader) -> None:
    for number in range(12):
        transmit(site, b"%d" % number, to=("tokyo",) if number % 3 else ("lima", "tokyo"))
        if number % 4 == 0:
            reader.drain()
    reader.drain()
    ticks = [group.tick for group in reader.groups]
    owed = reader.log.read(SessionKey(ClientName("policy"), SiteId("lima")), ticks)
    named = [entry.payload for entry in everything(site, reader) if "lima" in entry.destinations]
    assert named == [row.payload for group in owed for row in group]


def test_overlapping_transactions_are_read_in_the_order_of_their_commits(
    site: Engine, reader: Reader, dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    with Session(site) as slow, slow.begin():
        transmit(slow, b"begun first")
        transmit(site, b"committed first")
        reader.drain()
        transmit(site, b"committed second")
    transmit(site, b"committed last")
    reader.drain()
    assert [entry.payload for entry in everything(site, reader)] == [
        b"committed first",
        b"committed second",
        b"begun first",
        b"committed last",
    ]


def test_large_payloads_are_read_a_few_at_a_time(site: Engine, reader: Reader) -> None:
    transmit(site, *(b"%d" % number + b"x" * 3_000_000 for number in range(4)))
    reader.drain()
    pages = list(log_pages(site, 0, 4))
    assert [len(page) for page in pages] == [1, 1, 1, 1]
    assert [page[0].payload[:1] for page in pages] == [b"0", b"1", b"2", b"3"]


def trim(engine: Engine, reader: Reader) -> None:
    """Trim all entries that are in a tick."""
    assert reader.rotate()
    assert reader.trim(Retention(seconds=0)).emptied_segments == 1
    assert stored(engine) == 0


def test_reading_trimmed_entries_raises_an_error(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", b"2")
    reader.drain()
    trim(site, reader)
    transmit(site, b"3")
    reader.drain()
    assert [(entry.payload, entry.sequence) for entry in everything(site, reader, after=2)] == [(b"3", 3)]
    with pytest.raises(TrimmedError, match="entries after 0 were asked for, but those up to 2 are already trimmed"):
        everything(site, reader)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_database_that_is_restored_during_the_reading_gives_no_part_of_the_entries(
    site: Engine, reader: Reader, tmp_path: Path
) -> None:
    transmit(site, b"1")
    reader.drain()
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(str(site.url.database))) as connection:
        connection.execute("VACUUM INTO ?", [str(backup)])
    transmit(site, b"2")
    reader.drain()
    reading = LogReader(LogOptions(url_of(site), 1, 10))
    (whole,) = reading.partitions()
    assert sum(batch.num_rows for batch in reading.read(whole)) == 2
    restored = LogReader(LogOptions(f"sqlite:///{backup}", 1, 10))
    with pytest.raises(NeedsFullSyncError, match="the log ends at 1 and not at 2 any more"):
        list(restored.read(whole))


# --- through Spark ----------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_spark_reads_the_log_in_parallel(spark: Any, site: Engine, reader: Reader) -> None:
    frame = spark.read.format("lrq_log").options(url=url_of(site), partitions=3).load()
    assert frame.count() == 0
    for number in range(9):
        transmit(site, b"%d" % number, to=("lima", "tokyo") if number % 3 == 0 else ("tokyo",))
        reader.drain()
    frame = spark.read.format("lrq_log").options(url=url_of(site), partitions=3).load()
    assert frame.rdd.getNumPartitions() == 3
    assert [row.payload.decode() for row in frame.collect()] == [str(number) for number in range(9)]
    exploded = frame.selectExpr("explode(destinations) site").groupBy("site").count().orderBy("site").collect()
    assert [tuple(row) for row in exploded] == [("lima", 3), ("tokyo", 9)]
    assert frame.where("commit_time > '2024-01-01'").count() == 9
    assert stored(site) == 9


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_spark_follows_the_log_and_reports_trimmed_entries(
    spark: Any, site: Engine, reader: Reader, tmp_path: Path
) -> None:
    taken: list[list[str]] = []

    def take(frame: Any, _number: int) -> None:
        taken.append([row.payload.decode() for row in frame.collect()])

    def follow() -> None:
        stream = spark.readStream.format("lrq_log").options(url=url_of(site), maxEntriesPerBatch=2).load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(_PATIENCE)

    for payloads in ([b"1"], [b"2"], [b"3", b"4", b"5"], [b"6"]):
        transmit(site, *payloads)
        reader.drain()
    follow()
    assert taken == [["1", "2"], ["3", "4", "5"], ["6"]]
    assert stored(site) == 6
    transmit(site, b"7")
    reader.drain()
    trim(site, reader)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's
        follow()
    assert sentence(str(caught.value)) == "entries after 6 were asked for, but those up to 7 are already trimmed"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_restored_database_is_reported(site: Engine, reader: Reader) -> None:
    transmit(site, b"1", b"2")
    reader.drain()
    stream = LogStream(LogOptions(url_of(site), 4, 10))
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, ReadMaxRows(10))
    assert (begin["seq"], end["seq"]) == (0, 2)
    with site.begin() as connection:
        connection.execute(update(branches).values(branch="another"))
    with pytest.raises(NeedsFullSyncError, match=f"the log does not have {end['branch']}@2 any more .*new checkpoint"):
        stream.latestOffset(end, ReadMaxRows(10))
    stream.stop()
