"""The batches that a Spark stream takes from receive queues, and the moment when it deletes their entries."""

import re

import pytest
from sqlalchemy import Engine, delete, func, select

from discovery.ownership import OwnershipState
from lr_client.spark.options import ReceiveOptions
from lr_client.spark.receive.format import ReceiveReader
from lr_client.spark.receive.portion_rows import read_portion
from lr_client.subscriber.subscription import subscribe
from lr_client.subscriber.wait_applied import wait_applied
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks, receive_headers
from queues.database.transactions import reading
from queues.errors import NeedsFullSyncError, OwnershipLostError, TransientError, UsageError, WaitTimeoutError
from queues.receive import headers
from queues.receive.batches import BatchLimits
from tests.lr_client.spark.sources.taking import Stream, change_branch, options, rows_of, url_of
from tests.lr_client.subscriber.applying import Apply, applied, payloads, texts
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.waiting import eventually


def test_entries_come_in_batches_of_whole_transactions(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1", b"2"], [b"3", b"4", b"5"])
    tokyo.tick([b"6"], payloads("large", 6))
    tokyo.tick([b"7"])
    with Stream(sink) as stream:
        batches = [stream.texts() for _ in range(5)]
    assert batches == [["1", "2"], ["3", "4", "5", "6"], texts("large", 6), ["7"], []]


def test_the_partition_key_is_a_column_by_an_option(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.keyed([("a", b"1"), (None, b"2")])
    with Stream(sink, partitions=1) as stream:
        (portion,) = stream.intake.plan(stream.intake.start(), stream.intake.after(stream.intake.start(), None))
    keyed, plain = (next(iter(read_portion(url_of(sink), portion, keyed=keyed))) for keyed in (True, False))
    assert keyed.column("partition_key").to_pylist() == ["a", None]
    assert keyed.schema.names == [*plain.schema.names, "partition_key"], "running streams keep their columns"
    assert options(sink, partitionKeys="true").partition_keys
    assert not options(sink).partition_keys


def test_a_stream_does_not_take_over_a_client_with_shards(sink: Engine, tokyo: Arrivals) -> None:
    applied.metadata.create_all(sink)
    tokyo.keyed([("a", b"1")])
    with subscribe(sink, Apply(), shards=2, poll_interval=0.02):
        eventually(lambda: tokyo.left == 0)
    with Stream(sink) as stream, pytest.raises(UsageError, match="run `lrq subscribe shards policy 1`"):
        stream.plan()


def test_a_batch_is_limited_in_bytes_too(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"x" * 60], [b"y" * 60], [b"z"])
    with Stream(sink) as stream:
        assert [len(stream.batch(BatchLimits(100, 100))) for _ in range(3)] == [1, 2, 0]


def test_a_batch_without_a_limit_holds_all_entries(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*([payload] for payload in payloads("n", 50)))
    with Stream(sink) as stream:
        assert stream.texts(None) == texts("n", 50)


def test_an_entry_is_deleted_only_after_the_checkpoint_has_it(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"], [b"2"])
    with Stream(sink) as stream:
        stream.plan()
        assert len(stream.read()) == 2
        assert tokyo.left == 2
        stream.done()
        assert stream.plan() is False
    assert tokyo.left == 0


def test_consuming_deletes_the_entries_and_may_be_repeated(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        start = stream.intake.start()
        end = stream.intake.after(start, None)
        stream.intake.consume(end)
        stream.intake.consume(end)
    assert tokyo.left == 0


def test_the_bytes_of_consumed_log_entries_are_counted(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", [b"row"], base=10)
    tokyo.tick([b"1"], [b"22"])
    tokyo.tick([b"333"])
    with reading(sink) as connection:
        size = connection.execute(select(func.sum(receive_blocks.c.size))).scalar_one()
    with Stream(sink) as stream:
        while stream.batch(BatchLimits(2, 100)):
            pass
    with reading(sink) as connection:
        counted = connection.execute(select(consumers.c.applied_bytes)).scalar_one()
    assert (tokyo.left, counted) == (0, size)


def test_an_unfinished_batch_is_repeated_after_a_restart(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"], [b"2"])
    with Stream(sink) as stream:
        stream.texts(BatchLimits(1, 100))
        stream.plan()
        first = stream.read()
    tokyo.tick([b"3"])
    with Stream(sink, stream.checkpoint) as stream:
        assert stream.read() == first
        stream.done()
        assert stream.texts() == ["3"]
        assert stream.texts() == []
    assert tokyo.left == 0


def test_the_very_first_batch_can_be_repeated(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", [b"1"])
    with Stream(sink) as stream:
        stream.plan()
    with Stream(sink, stream.checkpoint) as stream:
        assert [row["payload"] for row in stream.read()] == [b"1"]


def test_a_stream_with_a_finished_batch_continues_after_a_restart(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        stream.texts()
    assert tokyo.left == 1
    tokyo.tick([b"2"])
    with Stream(sink, stream.checkpoint) as stream:
        assert stream.texts() == ["2"]
    assert tokyo.left == 1


def test_a_snapshot_comes_before_the_log_and_never_in_the_same_batch(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", payloads("row", 6), base=10)
    tokyo.tick([b"log"])
    with Stream(sink) as stream:
        batches = [stream.batch() for _ in range(4)]
    assert [[row["payload"].decode() for row in batch] for batch in batches] == [
        texts("row", 4),
        ["row5", "row6"],
        ["log"],
        [],
    ]
    of_snapshot, of_log = batches[0][0], batches[2][0]
    assert (of_snapshot["kind"], of_snapshot["sequence"], of_snapshot["branch"]) == ("snapshot", 1, None)
    assert (of_snapshot["transaction"], of_snapshot["commit_time"], of_snapshot["sync_id"]) == (None, None, "s")
    assert (of_log["kind"], of_log["sequence"], of_log["transaction"]) == ("log", 11, 11)
    assert (of_log["branch"], of_log["source"], of_log["client"]) == (BRANCH, "tokyo", "policy")


def test_a_stream_follows_a_newer_snapshot(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"old"])
    with Stream(sink) as stream:
        assert stream.texts() == ["old"]
        tokyo.snapshot("s", [b"new"], base=5)
        tokyo.tick([b"log"])
        assert [stream.texts() for _ in range(3)] == [["new"], ["log"], []]
    assert tokyo.left == 0


def test_a_repeated_batch_omits_entries_that_a_newer_snapshot_has_replaced(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"replaced"])
    with Stream(sink) as stream:
        stream.plan()
    tokyo.snapshot("s", [b"new"], base=5)
    with Stream(sink, stream.checkpoint) as stream:
        assert stream.read() == []
        stream.done()
        assert [stream.texts() for _ in range(2)] == [["new"], []]


def test_a_snapshot_during_the_reading_of_a_batch_ends_it_with_instructions(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"replaced"])
    with Stream(sink) as stream:
        stream.plan()
        start, end = stream.intake.start(), stream.intake.after(stream.intake.start(), None)
        portions = stream.intake.plan(start, end)
        tokyo.snapshot("s", [b"new"], base=5)
        with pytest.raises(TransientError, match=r"a newer snapshot from tokyo has replaced .* start again"):
            rows_of(sink, portions)


def test_markers_bracket_a_snapshot_even_an_empty_one(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", [b"row"], base=3)
    with Stream(sink, snapshotMarkers=True) as stream:
        assert [stream.texts() for _ in range(3)] == [["<snapshot_start>", "row"], ["<snapshot_complete>"], []]
        tokyo.snapshot("empty", [], base=7)
        assert [stream.texts() for _ in range(2)] == [["<snapshot_start>", "<snapshot_complete>"], []]
        tokyo.tick([b"log"])
        assert [stream.texts() for _ in range(2)] == [["log"], []]
    assert tokyo.left == 0


def test_sources_share_a_batch_and_later_sources_join(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*([payload] for payload in payloads("tokyo", 4)))
    with Stream(sink) as stream:
        assert stream.texts() == texts("tokyo", 4)
        tokyo.tick(*([payload] for payload in payloads("again", 4)))
        paris = Arrivals(sink, source="paris")
        paris.tick(*([payload] for payload in payloads("paris", 4)))
        assert stream.texts() == ["again1", "again2", "paris1", "paris2"]
        assert stream.texts() == ["again3", "again4", "paris3", "paris4"]
        assert stream.texts() == []
    assert (tokyo.left, paris.left) == (0, 0)


def test_a_stream_of_one_source_does_not_touch_the_others(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    Arrivals(sink, source="paris").tick([b"2"])
    with Stream(sink, source="paris") as stream:
        assert [stream.texts() for _ in range(2)] == [["2"], []]
    assert tokyo.left == 1


def test_an_incomplete_tick_is_not_read(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.part_of_a_tick([b"1", b"2"])
    with Stream(sink) as stream:
        assert stream.texts() == []
        tokyo.complete_the_tick()
        assert stream.texts() == ["1", "2"]


def test_a_quiet_tick_makes_no_batch_but_moves_the_position(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", [b"row"], base=3)
    with Stream(sink) as stream:
        assert [stream.texts() for _ in range(2)] == [["row"], []]
        end = tokyo.tick(gap=5)
        assert stream.texts() == []
        with reading(sink) as connection:
            marks = connection.execute(select(consumers)).one()
        assert (marks.phase, marks.seq, marks.applied_total) == ("log", end, 1)
        tokyo.tick([b"log"])
        assert [stream.texts() for _ in range(2)] == [["log"], []]


def test_wait_applied_returns_after_the_stream_has_consumed_the_entry(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"], [b"2"])
    token = f"tokyo/policy/{BRANCH}/2"
    with Stream(sink) as stream:
        stream.texts()
        with pytest.raises(TimeoutError):
            wait_applied(sink, token, 0.05)
        assert stream.texts() == []
        wait_applied(sink, token, 0.05)


# --- other subscribers -----------------------------------------------------------------------------------------


def subscriber(engine: Engine) -> Lease:
    lease = leases.acquire(engine, "subscriber/policy", "an ordinary one", ttl=60)
    assert lease is not None
    return lease


def test_an_active_subscriber_keeps_a_stream_from_starting(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    subscriber(sink)
    intake = Stream(sink).intake
    eventually(lambda: intake._claim._ownership.state is OwnershipState.STANDING_BY)
    intake._claim._patience = 0.2
    with pytest.raises(WaitTimeoutError, match=r"another subscriber of policy is at work .*an ordinary one owns it"):
        intake.start()
    intake.close()


def test_a_stream_keeps_a_subscriber_from_starting(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink, leaseSeconds=100) as stream:
        stream.texts()
        assert leases.acquire(sink, "subscriber/policy", "an ordinary one", ttl=60) is None
    subscriber(sink)


def test_a_stream_that_was_taken_over_deletes_no_entry(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink, leaseSeconds=100) as stream:
        stream.texts()
        leases.release(sink, stream.intake._claim.lease())
        subscriber(sink)
        with pytest.raises(OwnershipLostError, match="taken over"):
            stream.texts()
    assert tokyo.left == 1


def consumed(engine: Engine, tokyo: Arrivals) -> None:
    """Let another subscriber consume all entries."""
    with Stream(engine, source=tokyo.source) as other:
        while other.batch():
            pass


def test_entries_that_another_subscriber_consumed_unread_are_reported(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        stream.texts()
    tokyo.tick([b"2"])
    consumed(sink, tokyo)
    tokyo.tick([b"3"])
    with (
        Stream(sink, stream.checkpoint) as stream,
        pytest.raises(NeedsFullSyncError, match="another subscriber has taken entries off LRQ_Recv_policy_tokyo"),
    ):
        stream.texts()


def test_entries_that_another_subscriber_consumed_in_the_middle_of_a_batch_are_reported(
    sink: Engine, tokyo: Arrivals
) -> None:
    tokyo.tick([b"1"], [b"2"])
    with Stream(sink) as stream:
        stream.plan()
    with Stream(sink) as other:
        other.texts(BatchLimits(1, 100))
        other.plan()
    with (
        Stream(sink, stream.checkpoint) as stream,
        pytest.raises(NeedsFullSyncError, match=r"of 2 entries between .* only 1 are left in LRQ_Recv_policy_tokyo"),
    ):
        stream.read()


def test_a_snapshot_repairs_a_stream_that_another_subscriber_had_passed(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        stream.texts()
    tokyo.tick([b"2"])
    consumed(sink, tokyo)
    with Stream(sink, stream.checkpoint) as stream, pytest.raises(NeedsFullSyncError, match="another subscriber"):
        stream.texts()
    tokyo.snapshot("s", [b"row"], base=9)
    tokyo.tick([b"log"])
    with Stream(sink, stream.checkpoint) as stream:
        assert [stream.texts() for _ in range(3)] == [["row"], ["log"], []]
    assert tokyo.left == 0


def test_a_pending_rollback_of_a_listener_is_reported_and_a_snapshot_repairs_the_stream(
    sink: Engine, tokyo: Arrivals
) -> None:
    kept = tokyo.tick([b"1"])
    tokyo.tick([b"2"])
    consumed(sink, tokyo)
    tokyo.go_back(kept)
    tokyo.tick([b"instead"])
    with Stream(sink) as stream, pytest.raises(NeedsFullSyncError, match=r"a listener has applied .* yet to undo"):
        stream.texts()
    tokyo.snapshot("s", [b"row"], base=9)
    tokyo.tick([b"log"])
    with Stream(sink) as stream:
        assert [stream.texts() for _ in range(3)] == [["row"], ["log"], []]


def test_a_snapshot_that_another_subscriber_has_begun_is_not_read_in_part(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        stream.texts()
    tokyo.snapshot("s", [b"row"], base=9)
    consumed(sink, tokyo)
    tokyo.tick([b"log"])
    with Stream(sink, stream.checkpoint) as stream, pytest.raises(NeedsFullSyncError, match="another subscriber"):
        stream.texts()
    with Stream(sink) as stream:
        assert stream.texts() == ["log"]


def test_entries_missing_from_a_batch_are_reported(sink: Engine, tokyo: Arrivals) -> None:
    for payload in (b"1", b"2", b"3"):
        tokyo.tick([payload])
    with Stream(sink) as stream:
        stream.plan()
        with sink.begin() as connection:
            connection.execute(delete(receive_blocks).where(receive_blocks.c.end_seq == 2))
        with pytest.raises(NeedsFullSyncError, match="of 3 entries between 0 and 3 of the log only 2 are left"):
            stream.read()


def test_entries_that_vanish_between_planning_and_reading_are_reported(sink: Engine, tokyo: Arrivals) -> None:
    for payload in (b"1", b"2", b"3"):
        tokyo.tick([payload])
    with Stream(sink, partitions=1) as stream:
        start = stream.intake.start()
        portions = stream.intake.plan(start, stream.intake.after(start, None))
        with sink.begin() as connection:
            connection.execute(delete(receive_blocks).where(receive_blocks.c.end_seq == 3))
        with pytest.raises(NeedsFullSyncError, match="of 3 entries between 0 and 3 of the log only 2 are left"):
            rows_of(sink, portions)


# --- histories --------------------------------------------------------------------------------------------------


def test_entries_that_the_source_lost_after_they_were_read_are_reported(sink: Engine, tokyo: Arrivals) -> None:
    kept = tokyo.tick([b"1"])
    tokyo.tick([b"2"])
    with Stream(sink) as stream:
        stream.plan()
    tokyo.go_back(kept)
    with (
        Stream(sink, stream.checkpoint) as stream,
        pytest.raises(NeedsFullSyncError, match=f"does not reach {BRANCH}@2 any more: tokyo has lost .*at {BRANCH}@1"),
    ):
        stream.read()
    tokyo.tick([b"other"])
    change_branch(sink, "branch-2", kept)
    with Stream(sink, stream.checkpoint) as stream:
        with pytest.raises(NeedsFullSyncError, match="at branch-2@2"):
            stream.read()
        stream.done()
        with pytest.raises(NeedsFullSyncError, match="Request a snapshot from tokyo"):
            stream.texts()
    tokyo.snapshot("s", [b"row"], base=9)
    with Stream(sink, stream.checkpoint) as stream:
        assert stream.texts() == ["row"]


def test_a_stream_follows_a_source_after_a_failover_without_loss(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    with Stream(sink) as stream:
        stream.plan()
        stream.read()
        end = tokyo.tick([b"2"])
        tokyo.tick([b"3"])
        change_branch(sink, "branch-2", end)
        assert len(stream.read()) == 1
        stream.done()
        found = [stream.batch() for _ in range(3)]
    assert [[(row["payload"], row["branch"]) for row in batch] for batch in found] == [
        [(b"2", BRANCH)],
        [(b"3", "branch-2")],
        [],
    ]
    assert tokyo.left == 0


# --- without deleting -----------------------------------------------------------------------------------------


def test_a_stream_without_deleting_changes_no_queue_and_needs_no_lease(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", [b"row"])
    tokyo.tick([b"1"])
    subscriber(sink)
    with Stream(sink, deleteOnCommit=False) as stream:
        assert [stream.texts() for _ in range(3)] == [["row"], ["1"], []]
        tokyo.tick([b"2"])
        assert stream.texts() == ["2"]
    assert tokyo.left == 3


def test_a_stream_without_deleting_reports_entries_that_a_subscriber_consumed_first(
    sink: Engine, tokyo: Arrivals
) -> None:
    tokyo.tick([b"1"])
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts() == ["1"]
        consumed(sink, tokyo)
        tokyo.tick([b"2"])
        assert stream.texts() == ["2"]
        tokyo.tick([b"3"])
        consumed(sink, tokyo)
        with pytest.raises(NeedsFullSyncError, match="another subscriber has taken"):
            stream.texts()


def test_a_stream_without_deleting_follows_a_newer_snapshot_before_its_consumption(
    sink: Engine, tokyo: Arrivals
) -> None:
    tokyo.tick([b"1"], [b"2"])
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts() == ["1", "2"]
        tokyo.snapshot("s", [b"row"], base=9)
        assert stream.texts() == ["row"]
        tokyo.tick([b"3"])
        consumed(sink, tokyo)
        with pytest.raises(NeedsFullSyncError, match="another subscriber has taken"):
            stream.texts()


def test_a_stream_without_deleting_reports_entries_that_the_source_lost(sink: Engine, tokyo: Arrivals) -> None:
    kept = tokyo.tick([b"1"])
    tokyo.tick([b"2"])
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts() == ["1", "2"]
        tokyo.go_back(kept)
        with pytest.raises(NeedsFullSyncError, match=f"does not reach {BRANCH}@2 any more: tokyo has lost"):
            stream.texts()
        tokyo.tick([b"instead"])
        tokyo.tick([b"3"])
        change_branch(sink, "branch-2", kept)
        with pytest.raises(NeedsFullSyncError, match=r"at branch-2@3.*Request a snapshot from tokyo"):
            stream.texts()
        tokyo.snapshot("s", [b"row"], base=9)
        assert stream.texts() == ["row"]


def test_a_stream_without_deleting_follows_a_failover_without_loss(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"1"])
    end = tokyo.tick([b"2"])
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts(BatchLimits(1, 100)) == ["1"]
        tokyo.tick([b"3"])
        change_branch(sink, "branch-2", end)
        assert [stream.texts() for _ in range(3)] == [["2"], ["3"], []]


@pytest.mark.parametrize("pruned", ["beyond the newest", "before a passed cut"])
def test_a_stream_without_deleting_goes_on_where_headers_are_pruned(
    sink: Engine, tokyo: Arrivals, monkeypatch: pytest.MonkeyPatch, pruned: str
) -> None:
    end = [tokyo.tick([b"%d" % number]) for number in range(3)][-1]
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts() == ["0", "1", "2"]
        tokyo.tick([b"3"])
        change_branch(sink, "branch-2", end)
        first = 0 if pruned == "before a passed cut" else 1
        with sink.begin() as connection:
            own = receive_headers.c.seq.between(first + 1, end)
            connection.execute(delete(receive_headers).where(own))
        if first:
            monkeypatch.setattr(headers, "KEPT_HEADERS", 1)
        assert stream.texts() == ["3"]


def test_entries_that_a_listener_must_undo_first_hide_no_later_ones(sink: Engine, tokyo: Arrivals) -> None:
    kept = tokyo.tick([b"1"])
    tokyo.tick([b"2"], [b"3"])
    consumed(sink, tokyo)
    tokyo.go_back(kept)
    tokyo.tick([b"instead"], [b"of 3"], [b"4"])
    with Stream(sink, deleteOnCommit=False) as stream:
        assert stream.texts() == ["instead", "of 3", "4"]
    reader = ReceiveReader(options(sink))
    found = [row["payload"] for row in rows_of(sink, [each.value for each in reader.partitions()])]
    assert found == [b"instead", b"of 3", b"4"]


# --- size -------------------------------------------------------------------------------------------------------


def test_a_batch_is_cut_into_equal_portions_in_order(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.snapshot("s", payloads("row", 10), base=0)
    for number in range(10):
        tokyo.tick([b"%d" % number], gap=number % 3)
    with Stream(sink, partitions=3) as stream:
        place = stream.intake.start()
        for _ in ("snapshot", "log"):
            end = stream.intake.after(place, None)
            assert [portion.entries for portion in stream.intake.plan(place, end)] == [4, 4, 2]
            place = end


def test_large_entries_are_read_a_few_at_a_time(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*([b"x" * 3_000_000] for _ in range(5)))
    with Stream(sink, partitions=1) as stream:
        start = stream.intake.start()
        (portion,) = stream.intake.plan(start, stream.intake.after(start, None))
    assert [batch.num_rows for batch in read_portion(url_of(sink), portion)] == [1, 1, 1, 1, 1]


# --- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"client": "a b"}, "'a b' is not a valid client name"),
        ({"partitions": 0}, "the option `partitions` is '0': give a whole number above zero"),
        ({"maxEntriesPerBatch": "many"}, "the option `maxEntriesPerBatch` is 'many': give a whole number"),
        ({"deleteOnCommit": "perhaps"}, "the option `deleteOnCommit` is 'perhaps': write true or false"),
        ({"delete_on_comit": "false"}, "there is no option `delete_on_comit`: write `deleteOnCommit`"),
        ({"sorce": "paris"}, "there is no option `sorce`: write `source`"),
        ({"url": "sqlite://"}, "use a SQLite database in a file"),
        ({"url": "nonsense"}, "the option `url` is no database URL"),
    ],
)
def test_invalid_options_are_refused(sink: Engine, given: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        options(sink, **given)


def test_missing_options_are_named() -> None:
    with pytest.raises(UsageError, match="needs the option `url`"):
        ReceiveOptions.parse({"client": "policy"})
    with pytest.raises(UsageError, match="needs the option `client`"):
        ReceiveOptions.parse({"url": "sqlite:///here.db"})
