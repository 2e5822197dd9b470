"""Receive queues through a real Spark: read once, and followed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, make_url

from lr_client.spark.errors import sentence
from tests.house.page_blocks import take
from tests.lr_client.spark.sources.taking import url_of
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.applying import applied as applied_table
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow, follow, listener  # noqa: F401 - fixtures
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ON_THE_PAGE = take(__name__, "docs/shards.md", "py")
_PATIENCE = 60.0


@pytest.fixture(autouse=True)
def arrived(tokyo: Arrivals) -> None:
    """A snapshot and a log after it, with gaps for entries of other sites."""
    tokyo.snapshot("s", [b"row1", b"row2", b"row3"], base=10)
    tokyo.tick([b"log1", b"log2"], [b"log3"])
    tokyo.tick([b"log4"], gap=7)


ARRIVED = ["row1", "row2", "row3", "log1", "log2", "log3", "log4"]


class Batches:
    """Keeps the payloads of each batch that `foreachBatch` gives."""

    def __init__(self, fail_at: int = -1) -> None:
        self.taken: list[list[str]] = []
        self._fail_at = fail_at

    def __call__(self, frame: Any, number: int) -> None:
        rows = [row.payload.decode() for row in frame.collect()]
        if number == self._fail_at:
            raise RuntimeError("the batch fails")
        self.taken.append(rows)


def reading(spark: Any, sink: Engine) -> Any:
    return spark.read.format("lrq_receive").options(url=url_of(sink), client="policy")


Run = Callable[..., Any]


@pytest.fixture
def run(spark: Any, sink: Engine, tmp_path: Path) -> Any:
    """Give a function that starts a stream, which is stopped at the end; its checkpoint stays."""
    started: list[Any] = []

    def start(batches: Callable[[Any, int], None], *, once: bool = False, **options: Any) -> Any:
        given = {"url": url_of(sink), "client": "policy", **options}
        source = spark.readStream.format("lrq_receive").options(**given).load()
        writer = source.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.trigger(availableNow=True) if once else writer
        started.append(writer.start())
        return started[-1]

    yield start
    for query in started:
        query.stop()


def test_a_read_returns_the_entries_that_a_subscriber_gets(
    spark: Any,
    sink: Engine,
    tokyo: Arrivals,
    follow: Follow,  # noqa: F811
) -> None:
    frame = reading(spark, sink).options(source="tokyo", partitions=2).load()
    assert [row.payload.decode() for row in frame.collect()] == ARRIVED
    assert frame.rdd.getNumPartitions() == 4
    assert tokyo.left == len(ARRIVED)
    applied_table.metadata.create_all(sink)
    follow(Apply())
    eventually(lambda: tokyo.left == 0)
    assert [told for told in story(sink) if told[0] != "<"] == ARRIVED
    assert reading(spark, sink).load().count() == 0


def test_the_columns_show_the_origin_of_an_entry(spark: Any, sink: Engine) -> None:
    frame = reading(spark, sink).load()
    row, *_, log = frame.orderBy("kind", "sequence", ascending=[False, True]).collect()
    assert row.asDict() == {
        "payload": b"row1", "item_key": None, "sequence": 1, "transaction": None, "commit_time": None,
        "kind": "snapshot", "sync_id": "s", "branch": None, "source": "tokyo", "client": "policy",
    }  # fmt: skip
    assert log.asDict() | {"commit_time": None} == {
        "payload": b"log4", "item_key": None, "sequence": 21, "transaction": 21, "commit_time": None,
        "kind": "log", "sync_id": "s", "branch": "branch-1", "source": "tokyo", "client": "policy",
    }  # fmt: skip
    moments = frame.where("kind = 'log'").selectExpr("unix_micros(commit_time) at").collect()
    assert [moment.at for moment in moments] == [1_011, 1_011, 1_013, 1_021]


KEYS = tuple(f"key{number}" for number in range(8))


def of_keys(frame: Any) -> dict[str, list[bytes]]:
    """Return the payloads of each key in the order in which the task of the key has them.

    Fails for a key with entries in several partitions.
    """
    found: dict[str, list[bytes]] = {}
    for rows in frame.rdd.glom().collect():
        here: dict[str, list[bytes]] = {}
        for row in rows:
            here.setdefault(row.partition_key, []).append(bytes(row.payload))
        assert not here.keys() & found.keys(), "all entries of a key are in one partition"
        found |= here
    return found


def test_a_read_can_be_repartitioned_by_the_partition_key(spark: Any, sink: Engine, tokyo: Arrivals) -> None:
    tokyo.keyed(*[[(key, f"{key} {number}".encode())] for number in range(20) for key in KEYS])
    frame = reading(spark, sink).options(partitionKeys=True, partitions=3).load().where("kind = 'log'")
    assert frame.schema.names[-1] == "partition_key"
    sorted_ = frame.repartition(4, "partition_key").sortWithinPartitions("sequence")
    assert sorted_.rdd.getNumPartitions() == 4
    wanted = {key: [f"{key} {number}".encode() for number in range(20)] for key in KEYS}
    # The entries of the fixture have no key.
    assert of_keys(sorted_) == wanted | {None: [b"log1", b"log2", b"log3", b"log4"]}
    assert "partition_key" not in reading(spark, sink).load().columns


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_read_of_the_page_about_shards_can_be_repartitioned(spark: Any, sink: Engine) -> None:
    (block,) = ON_THE_PAGE
    read, divide = block.splitlines()
    names = {"spark": spark, "url": url_of(sink)}
    exec(read, names)
    assert eval(divide, names).rdd.getNumPartitions() == 8


def test_a_stream_can_be_repartitioned_by_the_partition_key(run: Run, tokyo: Arrivals) -> None:
    batches: list[dict[str, list[bytes]]] = []

    def keep(frame: Any, _number: int) -> None:
        batches.append(of_keys(frame.repartition(3, "partition_key").sortWithinPartitions("sequence")))

    query = run(keep, partitionKeys=True, maxEntriesPerBatch=40)
    query.processAllAvailable()
    tokyo.keyed(*[[(key, f"{key} {number}".encode())] for number in range(20) for key in KEYS])
    query.processAllAvailable()
    for key in KEYS:
        told = [payload for batch in batches for payload in batch.get(key, [])]
        assert told == [f"{key} {number}".encode() for number in range(20)]
    assert sum(len(each) for batch in batches for each in batch.values()) == len(ARRIVED) + 20 * len(KEYS)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_missing_queue_is_reported_in_one_sentence(spark: Any, sink: Engine) -> None:
    with pytest.raises(Exception, match="received") as caught:
        reading(spark, sink).options(source="rome").load().collect()
    told = sentence(str(caught.value))
    assert told == "nothing was received here for client policy from rome yet: check both names"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_misspelt_option_is_reported_in_one_sentence(spark: Any, sink: Engine) -> None:
    with pytest.raises(Exception, match="no option") as caught:
        reading(spark, sink).options(deleteOnComit="false").load().collect()
    assert sentence(str(caught.value)).lower() == "there is no option `deleteoncomit`: write `deleteoncommit`"


def test_a_stream_brings_all_entries_once_in_order_within_its_limit(run: Run, sink: Engine, tokyo: Arrivals) -> None:
    batches = Batches()
    query = run(batches, maxEntriesPerBatch=2)
    query.processAllAvailable()
    tokyo.snapshot("newer", [b"new1"], base=90)
    query.processAllAvailable()
    tokyo.tick([b"log5"])
    query.processAllAvailable()
    assert batches.taken == [["row1", "row2"], ["row3"], ["log1", "log2"], ["log3", "log4"], ["new1"], ["log5"]]
    eventually(lambda: tokyo.left == 0, timeout=_PATIENCE)


def test_a_failed_batch_is_repeated_when_the_query_is_restarted(run: Run, tokyo: Arrivals) -> None:
    batches = Batches(fail_at=1)
    query = run(batches, maxEntriesPerBatch=3)
    with pytest.raises(Exception, match="the batch fails"):
        query.awaitTermination(_PATIENCE)
    assert batches.taken == [["row1", "row2", "row3"]]
    assert tokyo.left == 4
    tokyo.tick([b"log5"])
    again = Batches()
    run(again, once=True, maxEntriesPerBatch=3).awaitTermination(_PATIENCE)
    assert again.taken == [["log1", "log2", "log3"], ["log4", "log5"]]
    assert tokyo.left == 0


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_missing_entries_end_a_query_with_one_sentence(
    run: Run,
    sink: Engine,
    tokyo: Arrivals,
    follow: Follow,  # noqa: F811
) -> None:
    run(Batches(), once=True).awaitTermination(_PATIENCE)
    tokyo.tick([b"for another"])
    applied_table.metadata.create_all(sink)
    other = follow(Apply())
    eventually(lambda: tokyo.left == 0, timeout=_PATIENCE)
    other.close()
    query = run(Batches())
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's
        query.awaitTermination(_PATIENCE)
    assert sentence(str(caught.value)).startswith(
        "another subscriber has taken entries off LRQ_Recv_policy_tokyo that this stream has not read"
    )


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_password_is_not_shown(spark: Any, sink: Engine, run: Run, capfd: Any) -> None:
    secret = make_url(url_of(sink)).set(username="postgres", password="open-sesame")
    url = secret.render_as_string(hide_password=False)
    frame = reading(spark, sink).options(url=url).load()
    assert frame.count() == len(ARRIVED)
    frame.explain(True)
    query = run(Batches(fail_at=0), url=url)
    with pytest.raises(Exception, match="the batch fails") as caught:
        query.awaitTermination(_PATIENCE)
    query.explain(True)
    wrong = secret.set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(Exception, match="nowhere") as missing:
        reading(spark, sink).options(url=wrong).load().collect()
    shown = capfd.readouterr()
    told = [str(caught.value), str(missing.value), str(query.recentProgress), str(query.status), shown.out, shown.err]
    assert "lrq_receive" in shown.out
    assert not [text for text in told if "open-sesame" in text]
