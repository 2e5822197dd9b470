"""Several shards apply one receive queue."""

import random
import threading
from collections import Counter
from collections.abc import Iterable

import pytest
from sqlalchemy import Engine, select

from discovery import registry
from lr_client.subscriber.delivery import Superseded
from lr_client.subscriber.shard_delivery import ShardDelivery
from lr_client.subscriber.shard_owners import is_sharded
from lr_client.subscriber.shard_steps import KnownMaps, next_shard_step, read_shards
from lr_client.subscriber.sharding import move_slots, set_shards
from lr_client.subscriber.steps import DeliveryStep
from queues.clock import SystemClock
from queues.database import leases, tables
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError, UsageError
from queues.names import ClientName
from queues.receive import consumer_marks, shard_upkeep, stored_shard_maps
from queues.receive.batches import BatchLimits
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.kept_blocks import KeptBlocks
from queues.receive.parked import parked, retry_parked
from queues.receive.shard_marks import positions, rows_of
from queues.shard_maps import ShardMap, new_map, with_moves
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, Undo, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

POLICY = ClientName("policy")
KEYS = tuple(f"key{number}" for number in range(16))


def entries(numbers: Iterable[int], keys: tuple[str | None, ...] = KEYS) -> list[list[tuple[str | None, bytes]]]:
    """Return transactions of one entry each; the payload names the key and the number."""
    return [[(key := keys[number % len(keys)], f"{key}:{number}".encode())] for number in numbers]


def by_key(told: list[str]) -> dict[str, list[int]]:
    """Return the numbers of the applied entries, key by key, in the order in which they were applied."""
    found: dict[str, list[int]] = {}
    for text in told:
        if not text.startswith("<"):
            key, _, number = text.partition(":")
            found.setdefault(key, []).append(int(number))
    return found


def check(told: list[str], count: int) -> None:
    """Check that each of *count* entries was applied once, those of each key in their order."""
    numbers = by_key(told)
    assert sorted(number for each in numbers.values() for number in each) == list(range(count))
    for key, each in numbers.items():
        assert each == sorted(each), key


def marks(engine: Engine) -> dict[int, int]:
    with reading(engine) as connection:
        table = tables.shards.shard_marks
        return {row.shard: row.seq for row in connection.execute(select(table.c.shard, table.c.seq))}


def marks_of(engine: Engine, arrivals: Arrivals) -> dict[int, int]:
    with reading(engine) as connection:
        (queue,) = [each for each in registry.find(connection, arrivals.client) if each.source == arrivals.source]
        return dict(positions(rows_of(connection, queue.queue_id)))


def newest(engine: Engine) -> ShardMap:
    with reading(engine) as connection:
        found = stored_shard_maps.newest(connection, POLICY)
    assert found is not None
    return found


def shards_of(engine: Engine, keys: Iterable[str]) -> dict[str, int]:
    shard_map = newest(engine)
    return {key: shard_map.owners[shard_map.slot(key)] for key in keys}


def test_each_entry_is_applied_once_and_each_key_in_its_order(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.keyed(*entries(range(200)))
    follow(Apply(), shards=4, max_batch_entries=7)
    tokyo.keyed(*entries(range(200, 300)))
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 300)
    assert marks(sink).keys() == {0, 1, 2, 3}


def test_blocks_are_removed_once_all_shards_have_applied_them(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    follow(Apply(), shards=3)
    tokyo.keyed(*entries(range(50)))
    eventually(lambda: tokyo.left == 0)
    with reading(sink) as connection:
        assert connection.execute(select(tables.receive.receive_blocks)).all() == []
        row = connection.execute(select(tables.consumers.consumers)).one()
    assert (row.seq, row.applied_total) == (50, 50)


def test_transactions_of_several_shards_or_without_a_key_are_barriers(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    wide = [[(key, f"{key}:{number}".encode()) for key in KEYS[:4]] for number in (100, 101)]
    tokyo.keyed(*entries(range(16)), *wide, [(None, b"none:0")], *entries(range(16, 32)))
    follow(Apply(), shards=4)
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    barriers = [f"{key}:{number}" for number in (100, 101) for key in KEYS[:4]] + ["none:0"]
    assert told[16:25] == barriers
    assert set(told[:16]) == {f"{KEYS[number % 16]}:{number}" for number in range(16)}


def test_a_quick_listener_needs_no_call_for_each_barrier(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    every_shard = [[(key, f"{key}:{number}".encode()) for key in KEYS] for number in range(0, 640, 16)]
    singles = entries(range(640, 1_280))
    mixed = [each for place, wide in enumerate(every_shard) for each in (wide, *singles[16 * place : 16 * place + 16])]
    tokyo.keyed(*mixed)
    # With a clock that stands still, each call takes no time.
    listener = Apply()
    follow(listener, shards=4, clock=StandingClock())
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    for place in range(40):
        # A barrier, and the entries up to the next one.
        part = told[32 * place : 32 * place + 32]
        assert part[:16] == [f"{key}:{16 * place}" for key in KEYS]
        assert set(part[16:]) == {
            f"{KEYS[number % 16]}:{number}" for number in range(640 + 16 * place, 656 + 16 * place)
        }
    assert len(listener.calls) < 20, [len(call) for call in listener.calls]


def test_a_refused_entry_in_a_stretch_between_barriers_is_put_aside_alone(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    poisoned = {f"{KEYS[3]}:19".encode(), f"{KEYS[5]}:37".encode(), b"none:2"}

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload in poisoned:
            raise ValueError("poisoned")

    barriers = [[(None, f"none:{number}".encode())] for number in range(8)]
    parts = [each for number in range(8) for each in (barriers[number], *entries(range(8 * number, 8 * number + 8)))]
    tokyo.keyed(*parts)
    follow(Apply(refuse), shards=4, on_failure="park", max_tries=2, clock=StandingClock())
    eventually(lambda: tokyo.left == 0)
    assert sorted(each.entries for each in parked(sink)) == [1, 1, 1]
    assert len(story(sink)) == 8 * 9 - 3


def test_a_refused_key_leaves_the_other_shards_going(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.partition_key == KEYS[0]:
            raise ValueError("poisoned")

    follow(Apply(refuse), shards=4)
    tokyo.keyed(*entries(range(160)))
    eventually(lambda: newest(sink))
    bad = shards_of(sink, KEYS)[KEYS[0]]
    others = {key for key, shard in shards_of(sink, KEYS).items() if shard != bad}
    eventually(lambda: all(len(by_key(story(sink)).get(key, [])) == 10 for key in others))
    assert KEYS[0] not in by_key(story(sink))
    tokyo.keyed(*entries(range(160, 320)))
    eventually(lambda: all(len(by_key(story(sink)).get(key, [])) == 20 for key in others))


def test_park_puts_aside_the_refused_transaction_only(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    poisoned = {f"{KEYS[3]}:19".encode()}

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload in poisoned:
            raise ValueError("poisoned")

    follow(Apply(refuse), shards=4, on_failure="park", max_tries=2)
    tokyo.keyed(*entries(range(64)))
    eventually(lambda: tokyo.left == 0)
    (aside,) = parked(sink)
    assert (aside.entries, aside.tries) == (1, 2)
    assert len(story(sink)) == 63
    poisoned.clear()
    retry_parked(sink, aside.id)
    eventually(lambda: parked(sink) == [])
    assert story(sink)[-1] == f"{KEYS[3]}:19"


def test_a_snapshot_in_the_middle_replaces_everything_before(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    follow(Apply(), shards=4, max_batch_entries=3)
    tokyo.keyed(*entries(range(40)))
    tokyo.snapshot("s1", [b"r:1", b"r:2", b"r:3"], base=100)
    tokyo.keyed(*entries(range(40, 80)))
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    begin, end = told.index("<start>"), told.index("<complete>")
    assert told[begin : end + 1] == ["<start>", "r:1", "r:2", "r:3", "<complete>"]
    after = by_key(told[end + 1 :])
    assert sorted(number for each in after.values() for number in each) == list(range(40, 80))
    assert all(each == sorted(each) for each in after.values())
    assert set(marks(sink).values()) == {140}


def test_the_log_of_a_source_that_begins_again_with_lower_numbers_follows_its_snapshot(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    follow(Apply(), shards=4, max_batch_entries=3)
    tokyo.keyed(*entries(range(40)))
    eventually(lambda: tokyo.left == 0)
    tokyo.snapshot("s1", [b"r:1"], base=10)
    tokyo.keyed(*entries(range(40, 80)))
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    after = by_key(told[told.index("<complete>") + 1 :])
    assert sorted(number for each in after.values() for number in each) == list(range(40, 80))
    assert set(marks(sink).values()) == {50}


def test_a_rollback_is_undone_once_by_all_shards(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    subscription = follow(Undo(), shards=4)
    kept = tokyo.keyed(*entries(range(20)))
    tokyo.keyed(*entries(range(20, 40)))
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    tokyo.go_back(kept)
    tokyo.keyed(*entries(range(50, 60)))
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    assert told.count("<back to 20>") == 1
    assert told.index("<back to 20>") == 40
    assert len(told) == 51


def test_a_rollback_waits_for_the_shards_that_stand_before_it(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    going = [False]

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.partition_key == KEYS[0] and not going[0]:
            raise ValueError("not yet")

    follow(Undo(refuse), shards=4)
    tokyo.keyed(*entries(range(16)))
    tokyo.keyed(*entries(range(16, 32)))
    eventually(lambda: sorted(marks(sink).values())[1:] == [32, 32, 32])
    tokyo.go_back(16)
    tokyo.keyed(*entries(range(40, 56)))
    assert "<back to 16>" not in story(sink)
    going[0] = True
    eventually(lambda: tokyo.left == 0)
    told = story(sink)
    back = told.index("<back to 16>")
    assert {f"{KEYS[number]}:{number}" for number in range(16)} <= set(told[:back])
    numbers = [number for each in by_key(told[back:]).values() for number in each]
    assert sorted(numbers) == list(range(40, 56))


def test_moves_of_slots_keep_the_order_of_each_key(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    chance = random.Random(7)
    follow(Apply(), shards=4, max_batch_entries=3)
    for part in range(20):
        tokyo.keyed(*entries(range(part * 20, part * 20 + 20)))
        shard_map = newest(sink)
        moves = {shard_map.slot(key): chance.randrange(4) for key in chance.sample(KEYS, 5)}
        stored_shard_maps.add(sink, POLICY, with_moves(shard_map, moves))
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 400)


@pytest.mark.parametrize("numbers", [(1, 4), (4, 2), (2, 5, 1, 3)], ids=str)
def test_the_number_of_shards_changes_while_entries_come(
    sink: Engine, tokyo: Arrivals, follow: Follow, numbers: tuple[int, ...]
) -> None:
    follow(Apply(), shards=numbers[0], max_batch_entries=5)
    count = 0
    for number in numbers:
        if number != numbers[0]:
            with reading(sink) as connection:
                before = stored_shard_maps.newest(connection, POLICY)
            version = before.version + 1 if before else 1
            stored_shard_maps.add(sink, POLICY, new_map(version, number, "hash", before))
        for _ in range(3):
            tokyo.keyed(*entries(range(count, count + 40)))
            count += 40
        eventually(lambda: tokyo.left == 0)
    check(story(sink), count)
    wanted = set(range(numbers[-1])) if numbers[-1] > 1 else set()
    eventually(lambda: marks(sink).keys() == wanted)


def test_a_shard_that_retires_beside_one_that_stands_still_has_applied_its_entries_for_good(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    poisoned = set[str]()

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.partition_key in poisoned:
            raise ValueError("poisoned")

    follow(Apply(refuse), shards=3)
    tokyo.keyed(*entries(range(64)))
    eventually(lambda: tokyo.left == 0)
    owners = shards_of(sink, KEYS)
    bad, moved = [key for key in KEYS if owners[key] == 1][:2]
    other = next(key for key in KEYS if owners[key] == 2)
    poisoned.add(bad)
    tokyo.keyed([(bad, f"{bad}:64".encode())], [(other, f"{other}:65".encode())])
    eventually(lambda: [marks(sink)[0], marks(sink)[2]] == [66, 66])
    move_slots(sink, "policy", {newest(sink).slot(moved): 0})
    eventually(lambda: adopted(sink) == newest(sink).version)
    # Shard 0 waits for shard 1 before the entry of the moved key; shard 2 goes on.
    later = [[(other, f"{other}:{number}".encode())] for number in range(67, 77)]
    tokyo.keyed([(moved, f"{moved}:66".encode())], *later)
    eventually(lambda: marks(sink)[2] == 77)
    for shards in (2, 3):
        set_shards(sink, "policy", shards)
        eventually(lambda: adopted(sink) == newest(sink).version)
    poisoned.clear()
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 77)


def test_a_client_that_has_one_shard_again_has_no_trace_of_shards(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    follow(Apply(), shards=3)
    tokyo.keyed(*entries(range(30)))
    eventually(lambda: tokyo.left == 0)
    stored_shard_maps.add(sink, POLICY, new_map(2, 1, "hash"))
    eventually(lambda: not is_sharded(sink, POLICY))
    tokyo.keyed(*entries(range(30, 60)))
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 60)
    assert marks(sink) == {}
    with reading(sink) as connection:
        row = connection.execute(select(tables.consumers.consumers)).one()
    assert (row.seq, row.applied_total) == (60, 60)
    assert row.generation < 2**62


def test_a_refused_entry_of_one_source_stops_no_other_source_while_the_shards_end(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    is_refused = True

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if is_refused and entry.source_id == "lille":
            raise ValueError("poisoned")

    lille = Arrivals(sink, source="lille")
    follow(Apply(refuse), shards=3)
    tokyo.keyed(*entries(range(30)))
    eventually(lambda: tokyo.left == 0)
    lille.keyed([(KEYS[0], b"refused")])
    eventually(lambda: len(marks_of(sink, lille)) == 3)
    set_shards(sink, POLICY, 1)
    eventually(lambda: marks_of(sink, tokyo).keys() <= {0})
    for number in range(30, 40):
        tokyo.keyed(*entries([number]))
        eventually(lambda: tokyo.left == 0)
    check(story(sink), 40)
    newcomer = Arrivals(sink, source="lens")
    newcomer.keyed([(None, b"first")])
    eventually(lambda: story(sink, "lens") == ["first"])
    assert story(sink, "lille") == []
    is_refused = False
    eventually(lambda: not is_sharded(sink, POLICY))
    assert story(sink, "lille") == ["refused"]


def test_two_subscriptions_share_the_shards(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    first = follow(Apply(), shards=4, lease_ttl=1.0)
    eventually(lambda: first.active)
    second = follow(Apply(), shards=4, lease_ttl=1.0)
    eventually(lambda: second.active, timeout=20)
    tokyo.keyed(*entries(range(200)))
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 200)
    first.close()
    tokyo.keyed(*entries(range(200, 400)))
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 400)


# --- maps and leases --------------------------------------------------------------------------------------------


def adopted(engine: Engine) -> int:
    """Return the newest version of the map that the queue has taken."""
    with reading(engine) as connection:
        return max(connection.execute(select(tables.shards.shard_changes.c.version)).scalars(), default=0)


@pytest.mark.parametrize("to_the_slow_shard", [True, False], ids=["to the slow shard", "from the slow shard"])
def test_a_new_map_holds_behind_all_that_any_shard_has_applied(
    sink: Engine, tokyo: Arrivals, follow: Follow, to_the_slow_shard: bool
) -> None:
    poisoned = {KEYS[0]}

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.partition_key in poisoned:
            raise ValueError("poisoned")

    follow(Apply(refuse), shards=4)
    tokyo.keyed(*entries(range(160)))
    eventually(lambda: len(marks(sink)) == 4)
    owners = shards_of(sink, KEYS)
    slow, fast = owners[KEYS[0]], next(shard for shard in owners.values() if shard != owners[KEYS[0]])
    eventually(lambda: sorted(marks(sink).values())[1:] == [160] * 3)
    assert marks(sink)[slow] < 160
    moved, to = (fast, slow) if to_the_slow_shard else (slow, fast)
    slots = {newest(sink).slot(key): to for key, shard in owners.items() if shard == moved and key != KEYS[0]}
    version = move_slots(sink, "policy", slots).version
    eventually(lambda: adopted(sink) == version)
    tokyo.keyed(*entries(range(160, 200)))
    poisoned.clear()
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 200)


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ({17: 1.0}, "no shard 1.0: the shards are 0 to 1"),
        ({17: "1"}, "no shard '1'"),
        ({17: -1}, "no shard -1"),
        ({17.0: 1}, "no slot 17.0: hash has slots 0 to 1023"),
        ({"17": 1}, "no slot '17'"),
    ],
)
def test_a_move_of_something_else_than_whole_numbers_is_refused(sink: Engine, moves: dict, words: str) -> None:
    before = set_shards(sink, POLICY, 2)
    with pytest.raises(UsageError, match=words):
        move_slots(sink, POLICY, moves)
    assert newest(sink) == before


def test_a_truth_value_in_a_move_counts_as_a_number(sink: Engine) -> None:
    set_shards(sink, POLICY, 2)
    stored = move_slots(sink, POLICY, {16: True})
    assert newest(sink) == stored


class StandingClock(SystemClock):
    """A clock that does not go on."""

    def monotonic(self) -> float:
        return 0.0


def test_a_skewed_backlog_is_balanced_before_its_first_step(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    even = new_map(1, 4, "adaptive")
    hot = tuple(key for key in map(str, range(100)) if even.owners[even.slot(key)] == 0)[:8]
    tokyo.keyed(*entries(range(400), hot))
    follow(Apply(), shards=4, partitioner="adaptive", clock=StandingClock())
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 400)
    assert set(shards_of(sink, hot).values()) == {0, 1, 2, 3}
    with reading(sink) as connection:
        assert set(connection.execute(select(tables.shards.shard_changes.c.version)).scalars()) == {2}


def test_a_backlog_that_grows_later_is_balanced_too(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    even = new_map(1, 4, "adaptive")
    hot = tuple(key for key in map(str, range(100)) if even.owners[even.slot(key)] == 0)[:8]
    held = set[str]()

    def refuse(entry: RoutingTableEntryMsg) -> None:
        if entry.partition_key in held:
            raise ValueError("held")

    follow(Apply(refuse), shards=4, partitioner="adaptive")
    tokyo.keyed(*entries(range(8), hot))
    eventually(lambda: tokyo.left == 0)
    held |= set(hot)
    tokyo.keyed(*entries(range(8, 108), hot))
    # Shard 0 has its backlog in any case, so the other three may get all slots.
    eventually(lambda: len(set(shards_of(sink, hot).values())) > 2)
    held.clear()
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 108)


def test_a_skewed_backlog_comes_within_1_3_times_of_an_even_one(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    even, chance = new_map(1, 4, "adaptive"), random.Random(1)
    keys = [f"key{number}" for number in range(512)]
    hot = [key for key in keys if even.owners[even.slot(key)] == 0]
    # As in `benchmarks/shards.py`: 60 % of the entries are those of one shard, or of a fourth of the others.
    chosen = [chance.choice(hot if chance.random() < 0.6 else keys) for _ in range(1_200)]
    tokyo.keyed(*[[(key, f"{key}:{number}".encode())] for number, key in enumerate(chosen)])
    follow(Apply(), shards=4, partitioner="adaptive", clock=StandingClock())
    eventually(lambda: tokyo.left == 0, timeout=60)
    with reading(sink) as connection:
        applied = connection.execute(select(tables.shards.shard_marks.c.applied_total)).scalars().all()
    assert sum(applied) == 1_200
    assert max(applied) <= 1.3 * 1_200 / 4
    assert Counter(even.owners[even.slot(key)] for key in chosen)[0] > 2 * 1_200 / 4, "without moves"


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_all_shards_call_the_listener_at_the_same_time(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    even, together = new_map(1, 4, "modulo"), threading.Barrier(4)
    one_each = {even.slot(key): key for key in KEYS}
    tokyo.keyed(*[[(one_each[shard], b"%d" % shard)] for shard in range(4)])

    def meet(_entry: RoutingTableEntryMsg) -> None:
        together.wait(20)

    listener = Apply(meet)
    follow(listener, shards=4, partitioner="modulo")
    eventually(lambda: tokyo.left == 0, timeout=60)
    assert sorted(story(sink)) == ["0", "1", "2", "3"]
    assert listener.errors == []


def test_the_stored_shards_count_and_a_program_that_names_others_is_warned(
    sink: Engine, tokyo: Arrivals, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    stored = set_shards(sink, "policy", 3, partitioner="key")
    tokyo.keyed(*[[(str(number % 8), f"{number % 8}:{number}".encode())] for number in range(24)])
    with pytest.raises(UsageError, match="there is no partitioner hsah"):
        follow(Apply(), shards=4, partitioner="hsah")
    follow(Apply(), shards=3, partitioner="key")
    assert "names other shards" not in caplog.text
    follow(Apply(), shards=4, partitioner="hash")
    assert "the application names other shards than those that are stored" in caplog.text
    eventually(lambda: tokyo.left == 0)
    check(story(sink), 24)
    assert newest(sink) == stored


def test_two_clients_of_a_site_have_partitioners_of_their_own(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tenant = Arrivals(sink, client="tenant", source="lille")
    for arrivals in (tokyo, tenant):
        arrivals.keyed(*[[(str(number % 8), f"{number % 8}:{number}".encode())] for number in range(64)])
    follow(Apply(), shards=2, partitioner="range(4)")
    follow(Apply(client="tenant"), shards=3, partitioner="key")
    eventually(lambda: tokyo.left == tenant.left == 0)
    for source in ("tokyo", "lille"):
        check(story(sink, source), 64)
    assert [marks_of(sink, arrivals).keys() for arrivals in (tokyo, tenant)] == [{0, 1}, {0, 1, 2}]
    with reading(sink) as connection:
        ranges, numbers = (stored_shard_maps.newest(connection, ClientName(name)) for name in ("policy", "tenant"))
    assert ranges is not None
    assert numbers is not None
    assert [ranges.owners[ranges.slot(key)] for key in "0257"] == [0, 0, 1, 1]
    assert [numbers.owners[numbers.slot(key)] for key in "0257"] == [0, 2, 2, 1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (ShardMap(1, 3, "hash", (0, 2) * 512), "the shards 1 of 3 own no slot"),
        (ShardMap(1, 2, "hash", (0, 2) * 512), "the map names the shards 2, but the shards are 0 to 1"),
        (ShardMap(1, 2, "hash", (0, 1)), "the map has owners for 2 slots"),
        (ShardMap(1, 2, "nonsense", (0, 1) * 512), "nonsense"),
    ],
)
def test_a_bad_map_is_refused_when_it_is_written(sink: Engine, wrong: ShardMap, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        stored_shard_maps.add(sink, POLICY, wrong)
    with reading(sink) as connection:
        assert stored_shard_maps.newest(connection, POLICY) is None


def owned_shards(sink: Engine, shards: int) -> list[Lease]:
    """Give the only queue its shards; return the lease of each, under the first owner."""
    found = [leases.acquire(sink, subscriber_lease(POLICY, shard), "first", ttl=60) for shard in range(shards)]
    held = [lease for lease in found if lease is not None]
    stored_shard_maps.add(sink, POLICY, new_map(1, shards, "hash"))
    with reading(sink) as connection:
        [queue] = registry.find(connection, POLICY)
    consumer_marks.enroll(sink, queue.queue_id)
    with writing(sink) as connection:
        shard_upkeep.adopt(connection, queue.queue_id, held[0], newest(sink))
    return held


def delivery(sink: Engine, listener: Apply, lease: Lease, shard: int) -> ShardDelivery:
    with reading(sink) as connection:
        [queue] = registry.find(connection, POLICY)
    return ShardDelivery(sink, listener, queue, lease, shard=shard)


def step_of(sink: Engine, tokyo: Arrivals, shard: int) -> DeliveryStep:
    """Read the next step of *shard*, which has one entry at a time."""
    with reading(sink) as connection:
        queue = read_shards(connection, tokyo.queue_id(connection), POLICY, KnownMaps(POLICY))
        assert queue is not None
        step = next_shard_step(connection, queue, shard, BatchLimits(1, 1 << 20), KeptBlocks(), one=True)
    assert step is not None
    return step


def test_two_owners_of_a_shard_apply_each_entry_once(sink: Engine, tokyo: Arrivals, listener: Apply) -> None:
    tokyo.keyed(*entries(range(64)))
    lease = owned_shards(sink, 2)[1]
    step = step_of(sink, tokyo, 1)
    delivery(sink, listener, lease, 1).carry_out(step)
    with pytest.raises(Superseded):
        delivery(sink, listener, lease, 1).carry_out(step)
    assert len(story(sink)) == len(step.rows)


def test_of_two_shards_that_move_the_marks_of_all_the_later_one_changes_nothing(
    sink: Engine, tokyo: Arrivals, listener: Apply
) -> None:
    tokyo.keyed(*entries(range(64)))
    for shard, lease in enumerate(owned_shards(sink, 2)):
        delivery(sink, listener, lease, shard).carry_out(step_of(sink, tokyo, shard))
    with reading(sink) as connection:
        queue = read_shards(connection, tokyo.queue_id(connection), POLICY, KnownMaps(POLICY))
    assert queue is not None
    moved = []
    for _ in range(2):
        with writing(sink) as connection:
            moved.append(shard_upkeep.settle(connection, queue.queue_id, queue.stands, queue.settled_seq))
    assert moved == [True, False], "no rollback, which would drop the prepared statements of the connection"


def test_an_owner_of_a_shard_that_was_replaced_is_refused_inside_its_transaction(
    sink: Engine, tokyo: Arrivals, listener: Apply
) -> None:
    tokyo.keyed(*entries(range(64)))
    stale = owned_shards(sink, 2)[1]
    step = step_of(sink, tokyo, 1)
    leases.release(sink, stale)
    successor = leases.acquire(sink, subscriber_lease(POLICY, 1), "second", ttl=60)
    assert successor is not None
    with pytest.raises(OwnershipLostError):
        delivery(sink, listener, stale, 1).carry_out(step)
    assert story(sink) == []
    delivery(sink, listener, successor, 1).carry_out(step)
    assert len(story(sink)) == len(step.rows)
