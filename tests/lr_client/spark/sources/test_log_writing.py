"""Spark writes DataFrames and streams into the log of a site, each row once."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from sqlalchemy import Engine

from lr_client.spark.errors import sentence
from lr_client.spark.log.format import LogFormat
from lr_client.spark.log.writer import LogBatchWriter
from lr_server import LogReplicationServer, Settings
from tests.conftest import NewSite
from tests.lr_client.spark.sources.log_writing import Site, feed, lines, numbers, save, texts, write_stream
from tests.lr_client.spark.sources.taking import url_of
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_PATIENCE = 120


@pytest.fixture
def paris(site: Engine) -> Site:
    return Site(site)


def run(query: Any) -> None:
    query.awaitTermination(_PATIENCE)
    assert not query.isActive


def test_each_row_of_a_frame_becomes_an_entry_in_one_transaction(spark: Any, paris: Site) -> None:
    schema = (
        "payload binary, destinations array<string>, item_key string, partition_key string, headers map<string,string>"
    )
    rows = [
        (bytearray(b"a"), ["tokyo", "lima"], "item", "part", {"k": "v"}),
        (bytearray(b""), ["tokyo"], None, None, None),
        (bytearray(b"\0\xff"), ["lima"], "item", None, {}),
    ]
    save(spark.createDataFrame(rows, schema).coalesce(1), paris.url)
    found = paris.entries()
    assert [(e.payload, e.destinations, e.item_key, e.partition_key, e.client) for e in found] == [
        (b"a", ("lima", "tokyo"), "item", "part", "policy"),
        (b"", ("tokyo",), None, None, "policy"),
        (b"\0\xff", ("lima",), "item", None, "policy"),
    ]
    assert len({entry.transaction for entry in found}) == 1
    assert paris.left() == 0


def test_a_sorted_frame_keeps_its_order_over_several_partitions(spark: Any, paris: Site) -> None:
    save(numbers(spark, 100, 300, 4).orderBy("payload", ascending=False), paris.url)
    assert paris.logged() == sorted(texts(100, 300), reverse=True)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_destinations_may_be_text_or_an_option(spark: Any, paris: Site) -> None:
    save(spark.sql("SELECT cast('1' as binary) payload, 'tokyo, lima' destinations"), paris.url)
    save(spark.sql("SELECT cast('2' as binary) payload"), paris.url, destinations="lima,osaka")
    assert [entry.destinations for entry in paris.entries()] == [("lima", "tokyo"), ("lima", "osaka")]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT 'a' payload, 'tokyo' destinations", "`payload` is of type string: make it binary"),
        ("SELECT cast('1' as binary) payload, 'paris' destinations", "'paris' is this site itself"),
    ],
)
def test_a_refusal_reaches_the_caller_as_one_sentence(spark: Any, paris: Site, query: str, words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        save(spark.sql(query), paris.url)
    assert "\n" not in sentence(str(caught.value))
    assert (paris.logged(), paris.left()) == ([], 0)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_other_modes_than_append_are_refused(spark: Any, paris: Site, tmp_path: Path) -> None:
    frame = numbers(spark, 0, 1)
    for mode in ("overwrite", "errorifexists", "ignore"):
        with pytest.raises(Exception, match=r"mode|Append"):
            frame.write.format("lrq_log").options(url=paris.url, client="policy").mode(mode).save()
    with pytest.raises(Exception, match="only adds entries: use the mode `append`"):
        frame.write.format("lrq_log").options(url=paris.url, client="policy").mode("overwrite").save()
    assert paris.logged() == []


def test_a_database_without_tables_is_refused_before_any_task(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="run `lrq init`"):
        save(numbers(spark, 0, 1), f"sqlite:///{tmp_path / 'empty.db'}")


def test_a_numbered_batch_is_stored_once(spark: Any, paris: Site) -> None:
    named = {"producer": "nightly", "sequence": 0}
    save(numbers(spark, 0, 10), paris.url, **named)
    save(numbers(spark, 0, 10, 3), paris.url, **named)
    save(numbers(spark, 10, 20), paris.url, **{**named, "sequence": 1})
    assert paris.logged() == texts(0, 20)
    save(numbers(spark, 20, 21), paris.url)
    save(numbers(spark, 20, 21), paris.url)
    assert paris.logged()[20:] == ["20", "20"]
    assert paris.left() == 0


class FailingWriter(LogBatchWriter):
    """Stages its rows; then the first try of the first task fails, and the process of the second one dies."""

    def write(self, iterator: Any) -> Any:
        message = LogBatchWriter.write(self, iterator)
        task = TaskContext.get()
        assert task is not None
        if (task.partitionId(), task.attemptNumber()) == (1, 0):
            os._exit(1)
        if task.attemptNumber() == 0:
            raise RuntimeError("the try fails after its rows are staged")
        return message


class FailingFormat(LogFormat):
    @classmethod
    def name(cls) -> str:
        return "failing_lrq_log"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return FailingWriter(LogFormat.writer(self, schema, overwrite)._options)


class TwiceWriter(LogBatchWriter):
    """Stages the rows twice, as two tries of a speculative task do."""

    def write(self, iterator: Any) -> Any:
        batches = list(iterator)
        LogBatchWriter.write(self, iter(batches))
        return LogBatchWriter.write(self, iter(batches))


class TwiceFormat(LogFormat):
    @classmethod
    def name(cls) -> str:
        return "twice_lrq_log"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return TwiceWriter(LogFormat.writer(self, schema, overwrite)._options)


@pytest.mark.parametrize("kind", [FailingFormat, TwiceFormat])
def test_rows_of_failed_and_doubled_tries_never_get_into_the_log(spark: Any, paris: Site, kind: type[Any]) -> None:
    spark.dataSource.register(kind)
    frame = numbers(spark, 0, 3_000)
    frame.write.format(kind.name()).options(url=paris.url, client="policy").mode("append").save()
    assert paris.logged() == texts(0, 3_000)
    assert paris.left() == 0


def test_a_job_that_fails_leaves_nothing_in_the_log(spark: Any, paris: Site) -> None:
    frame = numbers(spark, 0, 3_000).selectExpr(
        "if(payload = cast('2999' as binary), cast(NULL as binary), payload) payload", "destinations"
    )
    with pytest.raises(Exception, match="`payload` is NULL"):
        save(frame, paris.url)
    assert paris.logged() == []
    save(numbers(spark, 0, 5), paris.url)
    assert paris.logged() == texts(0, 5)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_rows_of_a_frame_arrive_at_each_of_their_sites(spark: Any, paris: Site, new_site: NewSite) -> None:
    tokyo = new_site("tokyo")
    listening = Settings(site_id="tokyo", database_url=url_of(tokyo), listen=["tcp://127.0.0.1:0"])
    with LogReplicationServer(listening) as sink:
        sending = Settings(
            site_id="paris", database_url=paris.url, peers={"tokyo": sink.endpoints[0]}, clients=["policy"]
        )
        save(numbers(spark, 0, 3_000), paris.url)
        with LogReplicationServer(sending):
            save(numbers(spark, 3_000, 3_010).coalesce(1), paris.url)
            received = spark.read.format("lrq_receive").options(url=url_of(tokyo), client="policy")
            eventually(lambda: received.load().count() == 3_010, timeout=_PATIENCE)
    rows = received.load().orderBy("sequence").select("payload", "transaction").collect()
    assert [row.payload.decode() for row in rows] == texts(0, 3_010)
    assert len({row.transaction for row in rows}) == 2


# --- streams ----------------------------------------------------------------------------------------------------


def test_each_epoch_of_a_stream_is_a_transaction(spark: Any, paris: Site, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", "a", "b")
    feed(tmp_path / "in", "2", "c")
    run(write_stream(lines(spark, tmp_path / "in"), paris.url, tmp_path / "checkpoint"))
    feed(tmp_path / "in", "3", "d", "e")
    run(write_stream(lines(spark, tmp_path / "in"), paris.url, tmp_path / "checkpoint"))
    found = paris.entries()
    epochs: dict[int, set[str]] = {}
    for entry in found:
        epochs.setdefault(entry.transaction, set()).add(entry.payload.decode())
    assert sorted(map(sorted, epochs.values())) == [["a", "b"], ["c"], ["d", "e"]]
    assert paris.left() == 0


def test_an_epoch_that_spark_repeats_is_stored_once(spark: Any, paris: Site, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for number in range(3):
        feed(tmp_path / "in", str(number), f"{number} a", f"{number} b")
    run(write_stream(lines(spark, tmp_path / "in"), paris.url, checkpoint))
    stored = paris.logged()
    assert len(stored) == 6
    for path in (checkpoint / "commits").glob("*2*"):  # as a driver killed before Spark's own commit leaves it
        path.unlink()
    feed(tmp_path / "in", "3", "3 a")
    more = lines(spark, tmp_path / "in").repartition(3)
    run(write_stream(more, paris.url, checkpoint))
    assert paris.logged() == [*stored, "3 a"]
    assert paris.left() == 0


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_checkpoint_that_has_gone_back_ends_the_query(spark: Any, paris: Site, tmp_path: Path) -> None:
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    feed(tmp_path / "in", "1", "a")
    run(write_stream(lines(spark, tmp_path / "in"), paris.url, checkpoint))
    shutil.copytree(checkpoint, backup)
    for number in ("2", "3"):
        feed(tmp_path / "in", number, number)
    run(write_stream(lines(spark, tmp_path / "in"), paris.url, checkpoint))
    feed(tmp_path / "in", "0", "comes first now")
    with pytest.raises(Exception, match="the batches of this stream up to 2, and batch 1 comes"):
        run(write_stream(lines(spark, tmp_path / "in"), paris.url, backup))
    assert paris.logged() == ["a", "2", "3"]
    assert paris.left() == 0


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_stream_with_another_checkpoint_is_another_producer(spark: Any, paris: Site, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", "a")
    for name in ("one", "other"):
        run(write_stream(lines(spark, tmp_path / "in"), paris.url, tmp_path / name))
    assert paris.logged() == ["a", "a"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_streams_have_no_number_of_their_own_and_only_append(spark: Any, paris: Site, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", "a")
    with pytest.raises(Exception, match="a stream is known by its checkpoint"):
        run(write_stream(lines(spark, tmp_path / "in"), paris.url, tmp_path / "one", producer="p"))
    counted = lines(spark, tmp_path / "in").groupBy("payload", "destinations").count().select("payload", "destinations")
    named = {"url": paris.url, "client": "policy", "checkpointLocation": str(tmp_path / "two")}
    query = counted.writeStream.format("lrq_log").outputMode("complete").options(**named)
    with pytest.raises(Exception, match="use the mode `append`"):
        run(query.trigger(availableNow=True).start())
    updated = query.outputMode("update").option("checkpointLocation", str(tmp_path / "three"))
    with pytest.raises(Exception, match="lrq_log does not support Update mode"):
        run(updated.trigger(availableNow=True).start())
    assert paris.logged() == []


def test_a_function_for_each_batch_numbers_its_frames(spark: Any, paris: Site, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", "a", "b")

    def write(frame: Any, number: int) -> None:
        for _ in range(2):  # as after a crash between this function and Spark's commit
            save(frame, paris.url, producer="orders", sequence=number)

    for name in ("2", "3"):
        checkpoint = str(tmp_path / "checkpoint")
        query = lines(spark, tmp_path / "in").writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        run(query.trigger(availableNow=True).start())
        feed(tmp_path / "in", name, name)
    assert sorted(paris.logged()) == ["2", "a", "b"]


@pytest.mark.long
def test_a_large_epoch_arrives_whole_in_transactions_of_the_chosen_size(spark: Any, paris: Site) -> None:
    wide = numbers(spark, 0, 50_000).selectExpr(
        "cast(concat(payload, repeat('x', 500)) as binary) payload", "destinations"
    )
    save(wide, paris.url, producer="large", sequence=7, rows_per_transaction=4_000)
    found = paris.entries()
    sizes: dict[int, int] = {}
    for entry in found:
        sizes[entry.transaction] = sizes.get(entry.transaction, 0) + 1
    assert [entry.payload.rstrip(b"x").decode() for entry in found] == texts(0, 50_000)
    assert max(sizes.values()) <= 4_000
    assert paris.left() == 0


def test_rows_for_a_group_of_replicas_are_owed_to_every_member(spark: Any, new_site: NewSite) -> None:
    members = ("tokyo-a", "tokyo-b")
    with ExitStack() as stack:
        world = World(new_site, stack)
        paris = world.link("paris", *members, replicas={"tokyo": members}, known_destinations_only=True)
        recorders = [world.subscribe(member) for member in members]
        eventually(lambda: world.execute("paris", "SELECT one FROM lrq_known_sites WHERE known_only"))
        save(numbers(spark, 0, 20).orderBy("payload"), url_of(world.site("paris")))
        paris.drain(timeout=30)
        for recorder in recorders:
            eventually(
                lambda recorder=recorder: recorder.log("paris") == [each.encode() for each in sorted(texts(0, 20))]
            )
