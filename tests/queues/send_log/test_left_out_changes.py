"""A trigger of others leaves out changes of the log's records. Then the step fails, and no entry is lost in silence."""

from collections.abc import Sequence
from contextlib import closing

import pytest
from sqlalchemy import Engine, text

from queues.clock import now_us
from queues.database import leases, servers
from queues.database.transactions import reading, writing
from queues.destinations import destination_set
from queues.errors import OwnershipLostError, SetupError, StoreUnavailableError
from queues.positions import Tick, Visibility
from queues.send_log.branches import begin_branch, void_restored
from queues.send_log.destination_sets import SetDictionary
from queues.send_log.epochs import store_epoch
from queues.send_log.links import set_wish, unclaimed
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.port import Retention
from queues.send_log.postgresql import unordered
from queues.send_log.producers import ProducerKey, Production, RequestVerdict, Store
from queues.send_log.ring.log_base import BaseBranch, LogBase, begin_from
from queues.send_log.ring.member_rows import MemberRow, write_member, write_promise
from queues.send_log.ring.member_trim import note_losses
from queues.send_log.ring.tick_contents import LogEnd
from queues.send_log.staging import Epoch, PartStaging, StagedPart
from queues.send_log.ticks import TickDraft, insert_tick
from queues.states import LinkWish
from tests.discovery.members import claim, register
from tests.left_out import rows_left_out
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import LIMA, TOKYO, acknowledge, transmit
from tests.queues.unordered import trigger_off

LOST = Retention(seconds=0)
ON_SQLITE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def leaves_out(table: str) -> str:
    return f"left rows out of {table}: drop it, or let the trigger fire AFTER"


@pytest.mark.parametrize(
    ("table", "on", "when"),
    [
        ("lrq_sessions", "UPDATE", "NEW.lost_seq = 2 AND NEW.destination = 'lima'"),
        ("lrq_strangers", "INSERT", "NEW.destination = 'quito'"),
        ("lrq_log_head", "UPDATE", "NEW.trimmed_seq = 2"),
    ],
)
def test_a_trim_whose_losses_are_not_recorded_keeps_the_entries(
    site: Engine, reader: Reader, table: str, on: str, when: str
) -> None:
    """Otherwise a session would go on behind its losses, and the site would lack entries without a word."""
    transmit(site, b"1", b"2", to=("tokyo", "lima", "quito"))
    reader.drain()
    acknowledge(site, "tokyo", 0)
    acknowledge(site, "lima", 0)
    assert reader.rotate()
    with rows_left_out(site, table, when, on=on), pytest.raises(SetupError, match=leaves_out(table)):
        reader.trim(LOST)
    assert reader.trim(LOST).laggards == (TOKYO, LIMA)
    with site.connect() as connection:
        assert connection.execute(text("SELECT min(lost_seq) FROM lrq_sessions")).scalar_one() == 2


@ON_SQLITE
def test_a_trim_that_cannot_empty_a_segment_ends(site: Engine, reader: Reader) -> None:
    """Otherwise it would trim the same segment for ever. PostgreSQL empties segments without firing such triggers."""
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    assert reader.rotate()
    table = "lrq_log_entries_0"
    with rows_left_out(site, table, on="DELETE"), pytest.raises(SetupError, match=leaves_out(table)):
        reader.trim()
    assert reader.trim().emptied_segments == 1


@pytest.mark.parametrize(
    ("table", "when"),
    [("lrq_tag_sets", "NEW.client = 'policy'"), ("lrq_tag_set_members", "NEW.destination = 'lima'")],
)
def test_no_tick_is_taken_whose_destinations_are_not_recorded(
    site: Engine, reader: Reader, table: str, when: str
) -> None:
    """Otherwise the readers of the tick would find no entry for these sites."""
    transmit(site, b"1", to=("tokyo", "lima"))
    with rows_left_out(site, table, when), pytest.raises(SetupError, match=leaves_out(table)):
        reader.drain()
    assert [row.payload for row in reader.drain()] == [b"1"]
    assert len(reader.log.read(LIMA, [reader.groups[0].tick])[0]) == 1


@pytest.mark.parametrize("to", ["tokyo", "lima"], ids=["known sets", "new sets"])
def test_a_tick_that_is_left_out_is_not_told_as_one_of_another_server(site: Engine, reader: Reader, to: str) -> None:
    transmit(site, b"1")
    reader.drain()
    transmit(site, b"2", to=(to,))
    with rows_left_out(site, "lrq_ticks"), pytest.raises(SetupError, match=leaves_out("lrq_ticks")):
        reader.drain()
    assert [row.payload for row in reader.drain()] == [b"2"]
    assert [group.tick.number for group in reader.groups] == [1, 2]


def test_a_tick_under_a_lost_lease_is_not_told_as_left_out(site: Engine, reader: Reader) -> None:
    """On PostgreSQL an acquisition may fall between the check of the lease and the tick."""
    transmit(site, b"1")
    reader.drain()
    last, partitioned = reader.groups[0].tick, site.dialect.name == "postgresql"
    leases.release(site, reader.lease)
    assert leases.acquire(site, "server", "another", ttl=60)
    upcoming = TickDraft(Visibility.parse(last.mark), [], [], 0, 0, more=False)
    with pytest.raises(OwnershipLostError), writing(site) as connection:
        insert_tick(connection, reader.lease, last, upcoming, SetDictionary(), partitioned=partitioned)


@ON_SQLITE
def test_no_entry_is_transmitted_without_an_id(site: Engine, reader: Reader) -> None:
    with rows_left_out(site, "lrq_log_head", on="UPDATE"):
        with pytest.raises(SetupError, match=leaves_out("lrq_log_head")):
            transmit(site, b"1")
        with closing(open_store(site)) as store, pytest.raises(SetupError, match=leaves_out("lrq_log_head")):
            store.store([production(1, "p")], now_us())
    assert reader.drain() == []


def test_a_renewal_that_is_left_out_is_no_takeover(site: Engine, lease: leases.Lease) -> None:
    told = pytest.raises(StoreUnavailableError, match=leaves_out("lrq_leases"))
    with rows_left_out(site, "lrq_leases", on="UPDATE"), told:
        leases.renew(site, lease, ttl=60)
    leases.renew(site, lease, ttl=60)


def test_no_generation_is_given_twice(site: Engine, lease: leases.Lease) -> None:
    told = pytest.raises(SetupError, match=leaves_out("lrq_generations"))
    with rows_left_out(site, "lrq_generations", on="UPDATE"), told:
        leases.acquire(site, "server", "me", ttl=60)
    again = leases.acquire(site, "server", "me", ttl=60)
    assert again is not None
    assert again.generation > lease.generation


def test_a_new_branch_gives_all_ranges_new_generations_or_none(site: Engine) -> None:
    register(site, "a")
    claim(site, "a", 0)
    before = servers.look(site).ranges
    told = pytest.raises(SetupError, match=leaves_out("lrq_ranges"))
    with rows_left_out(site, "lrq_ranges", "OLD.number = 1", on="UPDATE"), told, writing(site) as connection:
        servers.renumber(connection)
    assert servers.look(site).ranges == before


@ON_SQLITE
def test_the_file_of_a_member_notes_all_losses(site: Engine) -> None:
    acknowledge(site, "tokyo", 0)
    told = pytest.raises(SetupError, match=leaves_out("lrq_sessions"))
    with rows_left_out(site, "lrq_sessions", on="UPDATE"), told, writing(site) as connection:
        note_losses(connection, {TOKYO: 3}, 3)


def test_a_branch_begins_with_its_name_at_the_site_or_not_at_all(site: Engine) -> None:
    told = pytest.raises(SetupError, match=leaves_out("lrq_site"))
    with rows_left_out(site, "lrq_site", on="UPDATE"), told, writing(site) as connection:
        begin_branch(connection, 2, 0, "another cluster", "")


@ON_POSTGRESQL
@pytest.mark.parametrize(
    ("table", "on"),
    [
        ("lrq_sessions", "UPDATE"),
        ("lrq_log_head", "UPDATE"),
        ("lrq_ticks", "DELETE"),
        ("lrq_log_entries", "DELETE"),
        ("lrq_log_commits", "DELETE"),
    ],
)
def test_a_restored_log_is_void_for_all_sessions(site: Engine, reader: Reader, table: str, on: str) -> None:
    transmit(site, b"1")
    reader.drain()
    acknowledge(site, "tokyo", 1)
    with site.begin() as connection:
        for of_transactions in ("lrq_log_entries", "lrq_log_commits"):
            connection.execute(text(f"UPDATE {of_transactions} SET xid = {2**40}"))
    told = pytest.raises(SetupError, match=leaves_out(table))
    with rows_left_out(site, table, on=on), told, writing(site, snapshot=True) as connection:
        void_restored(connection, reader.lease, "b2", reader.last, 1)


@ON_SQLITE
def test_the_log_of_a_member_begins_behind_the_losses_of_all_sessions(site: Engine) -> None:
    acknowledge(site, "tokyo", 0)
    end = LogEnd(1, Tick(1, 1, "b", 0, 3, 0, is_large=False, mark="id/3", created_us=0))
    base = LogBase(end, [BaseBranch(1, 1, "b", 0)], [])
    told = pytest.raises(SetupError, match=leaves_out("lrq_sessions"))
    with rows_left_out(site, "lrq_sessions", on="UPDATE"), told, writing(site) as connection:
        begin_from(connection, base)


@pytest.mark.parametrize("together", [False, True], ids=["one producer", "several producers"])
def test_no_request_is_stored_without_its_number(site: Engine, reader: Reader, together: bool) -> None:
    """Otherwise a request that is repeated for a lost answer would be stored twice."""
    producers = ["p", "q"] if together else ["p"]
    first, second = ([production(sequence, each) for each in producers] for sequence in (1, 2))
    with closing(open_store(site)) as store:
        store.store(first, now_us())
        with rows_left_out(site, "lrq_producers", on="UPDATE"):
            assert_refused(store, second)
        assert {each.verdict for each in store.store(second, now_us())} == {RequestVerdict.STORED}
    assert sorted(row.payload for row in reader.drain()) == sorted([b"1", b"2"] * len(producers))


def test_no_first_request_is_stored_without_its_number(site: Engine, reader: Reader) -> None:
    asked = [production(1, "p"), production(1, "q")]
    with closing(open_store(site)) as store, rows_left_out(site, "lrq_producers"):
        assert_refused(store, asked)
    assert reader.drain() == []


def production(sequence: int, producer: str) -> Production:
    entry = NewEntry(b"%d" % sequence, destination_set(TOKYO.client, ["tokyo"]))
    return Production(ProducerKey(TOKYO.client, producer), sequence, [entry])


def assert_refused(store: Store, asked: Sequence[Production]) -> None:
    """Require that each request is refused with the name of the table, or all by an error."""
    try:
        reasons = [each.reason for each in store.store(asked, now_us()) if each.verdict is RequestVerdict.REFUSED]
    except SetupError as error:
        reasons = [str(error)] * len(asked)
    assert len([each for each in reasons if leaves_out("lrq_producers") in each]) == len(asked)


@pytest.mark.parametrize("on", ["INSERT", "UPDATE"])
def test_an_epoch_whose_number_is_left_out_does_not_count_as_stored(site: Engine, reader: Reader, on: str) -> None:
    """Otherwise Spark would go on, and the entries of the epoch would be lost."""
    if on == "UPDATE":
        assert store_epoch(site, EPOCH, [staged(site, EPOCH)])
    following = EPOCH._replace(sequence=2)
    part = staged(site, following)
    with rows_left_out(site, "lrq_producers", on=on), pytest.raises(SetupError, match=leaves_out("lrq_producers")):
        store_epoch(site, following, [part])
    assert store_epoch(site, following, [part])
    assert not store_epoch(site, following, [part]), "the same epoch again"
    assert [row.payload for row in reader.drain()] == [b"1"] * (1 if on == "INSERT" else 2)


@pytest.mark.parametrize("table", ["lrq_log_staged_blocks", "lrq_log_staging"])
def test_staged_rows_that_stay_are_not_moved_twice(site: Engine, reader: Reader, table: str) -> None:
    part = staged(site, EPOCH)
    with rows_left_out(site, table, on="DELETE"), pytest.raises(SetupError, match=leaves_out(table)):
        store_epoch(site, EPOCH, [part], rows_per_transaction=1)
    store_epoch(site, EPOCH, [part], rows_per_transaction=1)
    assert [row.payload for row in reader.drain()] == [b"1"]


EPOCH = Epoch(TOKYO.client, "job", 1)


def staged(site: Engine, epoch: Epoch) -> StagedPart:
    part = PartStaging(site, epoch)
    part.add(NewEntry(b"1", destination_set(TOKYO.client, ["tokyo"])))
    return part.finish()


@ON_SQLITE
def test_a_member_of_a_ring_gives_no_promise_that_its_file_lacks(site: Engine) -> None:
    told = pytest.raises(SetupError, match=leaves_out("lrq_ring_member"))
    with writing(site) as connection:
        write_member(connection, MemberRow(token=1, rank=0, promised=1, step=1, step_before=0), [])
    with rows_left_out(site, "lrq_ring_member", on="UPDATE"), told, writing(site) as connection:
        write_promise(connection, 2)


def test_an_end_of_a_link_that_senders_would_not_hear_of_is_refused(site: Engine) -> None:
    told = pytest.raises(SetupError, match=leaves_out("lrq_link_changes"))
    with rows_left_out(site, "lrq_link_changes", on="UPDATE"), told, writing(site) as connection:
        set_wish(connection, [TOKYO], LinkWish.ENDED)
    with reading(site) as connection:
        assert unclaimed(connection) == frozenset()


@ON_POSTGRESQL
def test_entries_without_a_place_stay_if_a_trigger_leaves_out_their_copies(site: Engine, reader: Reader) -> None:
    with trigger_off(site):
        transmit(site, b"1")
    told = pytest.raises(SetupError, match=leaves_out("lrq_log_entries"))
    with rows_left_out(site, "lrq_log_entries"), told, writing(site) as connection:
        unordered.send(connection)
    with writing(site) as connection:
        assert unordered.send(connection) == 1
    assert [row.payload for row in reader.drain()] == [b"1"]
