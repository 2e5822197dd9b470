"""The agreement on real files: crashes between any two effects, lost messages, and files that do not count.

Fault model:

* A process ends between any two effects of a step or a copy, and begins again from its file.
* Messages are lost, repeated and overtaken, and connections are cut in one direction.
* A machine finds its file without the witness, as after a restore, or empty, while both others count.
* Leaders trim their logs at any time, and followers trim after them.

Oracle: released ticks keep their content at every later leader, until they are trimmed. Each file has the record that
its member believes. After the faults the three files have equal logs, which an ordinary source reads. Each file
has the last request of each producer.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.events import BeatDue, FollowersUnheard, LeaderUnheard, TryDue
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.messages import Append, Promise, TicksHeld, TicksMissing
from lr_server.protocol.agreement.roles import Following, Leading, Newcomer, RingLimits
from lr_server.ring import member_state, recent_ticks
from lr_server.ring.edge import RingParcel
from queues.errors import CorruptFrameError, LrqError, PeerUnreachableError, UsageError
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.send_log.producers import ProducerKey
from queues.send_log.ring.productions import standings
from queues.send_log.ring.tick_contents import TickContent
from queues.send_log.ring.tick_productions import TickProduction
from tests.conftest import NewSite
from tests.lr_server.ring.edges import Machine, RingOfFiles
from tests.lr_server.ring.requests import key_of
from tests.lr_server.ring.stores import log_rows, transaction


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite, monkeypatch: pytest.MonkeyPatch) -> RingOfFiles:
    # Few ticks stay in memory, so that most messages come from the files.
    monkeypatch.setattr(recent_ticks, "MOST_TICKS", 2)
    return RingOfFiles([new_site("paris") for _ in RANKS], RingLimits(in_message=3, waiting=8))


def lead(ring: RingOfFiles, rank: int) -> None:
    """Let *rank* lead, and every member be level."""
    ring.everywhere(LeaderUnheard())
    ring.post(rank, TryDue())
    ring.deliver_all()
    assert isinstance(ring.machines[rank].edge.member.role, Leading)


def payloads_of(machine: Machine) -> list[bytes]:
    """Return the payloads in a file, as an ordinary source reads it."""
    log = open_log(machine.engine)
    ticks = log.ticks_after(log.bounds().trimmed_seq, TickLimits())
    return [entry.row.payload for piece in log.read_all(ticks, TickLimits()) for entry in piece]


def payloads(ring: RingOfFiles) -> list[bytes]:
    return [row.payload for content in ring.released for row in content.rows]


def test_three_files_agree_and_hold_the_same_log(ring: RingOfFiles):
    lead(ring, 0)
    for number in range(5):
        ring.take(0, b"%d" % number, b"more")
    assert payloads(ring) == [text for number in range(5) for text in (b"%d" % number, b"more")]
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]


def test_a_member_tells_only_things_in_its_file(ring: RingOfFiles):
    """The machines look into the file at each promise and each acknowledgement, here and in the other tests."""
    lead(ring, 0)
    ring.take(0, b"one")
    assert ring.told == {Promise, TicksHeld}


def test_offered_entries_are_stored_by_the_leader_and_declined_elsewhere(ring: RingOfFiles):
    lead(ring, 0)
    ring.everywhere(BeatDue())
    machines = ring.machines
    assert machines[0].edge.offer([transaction(b"one")]) == TickMark(2, 2)
    for machine in machines[1:]:
        assert machine.edge.offer([transaction(b"no")]) == Decline(0, "rank 0 leads this token")


@pytest.mark.parametrize("offered", [[], [transaction(*[b""] * 5_001)], [transaction(b"x" * (8 * 1024 * 1024 + 1))]])
def test_entries_that_fit_no_tick_are_refused_before_anything_is_stored(ring: RingOfFiles, offered):
    lead(ring, 0)
    before = log_rows(ring.machines[0].engine)
    with pytest.raises(UsageError, match="a tick of a ring takes 1 to 5000 entries"):
        ring.machines[0].edge.offer(offered)
    assert log_rows(ring.machines[0].engine) == before


def test_the_next_leader_takes_over_a_tail_that_only_the_other_follower_has(ring: RingOfFiles):
    lead(ring, 0)
    ring.cuts.add((0, 1))
    for number in range(8):
        ring.take(0, b"%d" % number)
    assert len(ring.released) == 9
    ring.cuts |= {(0, 2), (1, 0), (2, 0)}
    ring.post(2, LeaderUnheard())
    ring.post(1, LeaderUnheard())
    ring.post(1, TryDue())
    ring.deliver_all()
    ring.take(1, b"after")
    assert payloads(ring) == [*(b"%d" % number for number in range(8)), b"after"]


def test_a_leader_that_comes_back_follows_and_loses_its_own_unreleased_tick(ring: RingOfFiles):
    lead(ring, 0)
    ring.take(0, b"released")
    ring.cuts |= {(0, 1), (0, 2)}
    ring.take(0, b"never released")
    ring.machines[0].start_again()
    lead(ring, 1)
    ring.take(1, b"next")
    ring.settle()
    assert payloads(ring) == [b"released", b"next"]
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("crash_after", range(4))
def test_a_crash_after_any_effect_of_any_step_loses_nothing_that_was_released(ring: RingOfFiles, crash_after: int):
    """Every delivery of a short history ends once with a crash after so many effects."""
    lead(ring, 0)
    ring.take(0, b"one")
    for rank in (1, 0):
        ring.everywhere(LeaderUnheard())
        ring.post(rank, TryDue(), crash_after)
        for _ in range(12):
            if ring.network:
                ring.deliver(0, crash_after)
        ring.settle()
        ring.take(0, b"after %d" % rank)
    assert payloads(ring)[0] == b"one"
    assert payloads(ring)[-1] == b"after 0"
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]


def test_a_follower_that_was_away_from_the_beginning_gets_the_whole_log(ring: RingOfFiles):
    for other in (0, 1):
        ring.cuts |= {(2, other), (other, 2)}
    lead(ring, 0)
    for number in range(2 * ring.limits.in_message):
        ring.take(0, b"%d" % number)
    ring.cuts.clear()
    for _ in RANKS:
        ring.post(0, BeatDue())
        ring.deliver_all()
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]


def test_a_file_without_its_witness_counts_after_a_copy(ring: RingOfFiles):
    lead(ring, 0)
    for number in range(10):
        ring.take(0, b"%d" % number)
    ring.lose_file(2)
    assert isinstance(ring.machines[2].edge.member.role, Newcomer)
    ring.settle()
    assert ring.counts(2)
    assert isinstance(ring.machines[2].edge.member.role, Following)
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]
    assert ring.machines[0].edge.member.record.stores[2].number == 2


@pytest.mark.parametrize("error", [PeerUnreachableError("the disk of rank 0 fails"), CorruptFrameError("of rank 0")])
def test_a_newcomer_copies_from_the_third_member_the_ticks_that_its_source_cannot_read(
    ring: RingOfFiles, error: LrqError
):
    lead(ring, 0)
    for number in range(5):
        ring.take(0, b"%d" % number)
    ring.everywhere(BeatDue())
    ring.lose_disk(2)

    def pull(rank: int, after: int) -> Sequence[TickContent]:
        if rank == 0:
            raise error
        return ring.machines[rank].store.read(after, 2)

    ring.machines[2].pull = pull  # type: ignore[method-assign]
    ring.everywhere(TryDue())
    assert ring.counts(2)
    assert ring.machines[2].kept() == ring.machines[0].kept()


def test_a_newcomer_asks_in_vain_while_one_other_member_is_away(ring: RingOfFiles):
    lead(ring, 0)
    ring.take(0, b"one")
    ring.lose_file(2)
    ring.cuts |= {(1, 2), (2, 1)}
    for _ in range(3):
        ring.everywhere(TryDue())
    assert isinstance(ring.machines[2].edge.member.role, Newcomer)
    ring.settle()
    assert ring.counts(2)


def test_a_file_of_another_history_is_copied_from_its_beginning(ring: RingOfFiles, new_site: NewSite):
    """The numbers of its ticks are the same, and its random numbers are not."""
    other = RingOfFiles([new_site("paris") for _ in RANKS], ring.limits)
    for each in (ring, other):
        lead(each, 0)
        each.take(0, b"of the ring" if each is ring else b"of elsewhere")
    foreign, replaced = other.machines[2], ring.machines[2]
    replaced.store.close()
    replaced.engine, replaced.store = foreign.engine, foreign.store
    ring.lose_file(2)
    ring.settle()
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]


# --- trimmed logs ---------------------------------------------------------------------------------------------


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few ticks stay, and only one in memory."""
    monkeypatch.setattr(member_state, "KEPT_TICKS", 3)
    monkeypatch.setattr(recent_ticks, "MOST_TICKS", 1)


def trimmed(ring: RingOfFiles) -> list[int]:
    return [machine.store.trimmed() for machine in ring.machines]


@pytest.mark.usefixtures("_short")
def test_followers_trim_as_far_as_their_leader(ring: RingOfFiles):
    lead(ring, 0)
    for number in range(8):
        ring.take(0, b"%d" % number)
    ring.everywhere(BeatDue())
    assert trimmed(ring) == [0, 0, 0]
    ring.trim(0)
    ring.everywhere(BeatDue())
    assert trimmed(ring) == [6, 6, 6]
    assert [content.tick.number for content in ring.machines[1].kept()] == [7, 8, 9]


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("away", [1, 2])
def test_a_leader_trims_nothing_that_a_follower_lacks(ring: RingOfFiles, away: int):
    lead(ring, 0)
    ring.take(0, b"one")
    ring.cuts |= {(0, away), (away, 0)}
    for number in range(8):
        ring.take(0, b"%d" % number)
    ring.trim(0)
    assert trimmed(ring)[0] == 2
    ring.cuts.clear()
    ring.everywhere(BeatDue())
    ring.trim(0)
    ring.everywhere(BeatDue())
    assert trimmed(ring) == [7, 7, 7]
    assert ring.machines[away].alarms == []


@pytest.mark.usefixtures("_short")
def test_a_member_that_does_not_trim_keeps_all_and_harms_no_other(ring: RingOfFiles):
    ring.machines[1].trims = False
    ring.machines[1].start_again()
    lead(ring, 0)
    for number in range(8):
        ring.take(0, b"%d" % number)
    ring.trim(0)
    ring.everywhere(BeatDue())
    assert trimmed(ring) == [6, 0, 6]
    lead(ring, 1)
    ring.take(1, b"after")
    ring.lose_disk(2)
    ring.settle()
    assert trimmed(ring) in ([6, 0, 0], [6, 0, 6])
    ring.take(0, b"last")
    assert payloads(ring)[-2:] == [b"after", b"last"]


@pytest.mark.usefixtures("_short")
def test_a_follower_trims_nothing_that_it_does_not_know_as_released(ring: RingOfFiles):
    lead(ring, 0)
    for number in range(8):
        ring.take(0, b"%d" % number)
    ring.trim(0)
    ring.machines[1].start_again()
    follower = ring.machines[1].edge
    ring.post(0, BeatDue())
    parcel = next(each.parcel for each in ring.network if each.to == 1)
    assert parcel.trimmed == 6
    assert isinstance(parcel.message, Append)
    follower.receive(parcel._replace(message=replace(parcel.message, released=3)))
    assert ring.machines[1].store.trimmed() == 3


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("lost", RANKS)
def test_a_member_with_a_lost_file_copies_a_trimmed_log_and_leads(ring: RingOfFiles, lost: int):
    lead(ring, 0)
    for number in range(1, 9):
        ring.offer(0, transaction(b"%d" % number), asked=[TickProduction(key_of(), number, 0, 0, 1)])
        ring.deliver_all()
    ring.trim(0)
    ring.everywhere(BeatDue())
    machine = ring.machines[lost]
    ring.lose_disk(lost)
    ring.settle()
    assert ring.counts(lost)
    assert machine.store.trimmed() == 6
    leader = 1 if lost == 1 else 0
    lead(ring, leader)
    ring.take(leader, b"after")
    assert payloads(ring) == [*(b"%d" % number for number in range(1, 9)), b"after"]
    with machine.engine.connect() as connection:
        found = standings(connection, [key_of()])[key_of()]
    assert (found.last.sequence, found.position.seq) == (8, 8)


@pytest.mark.usefixtures("_short")
def test_a_follower_that_lacks_trimmed_ticks_raises_an_alarm_and_disturbs_no_member(ring: RingOfFiles):
    """The restored file of the follower is believed, which the witness prevents."""
    lead(ring, 0)
    for number in range(8):
        ring.take(0, b"%d" % number)
    ring.trim(0)
    ring.everywhere(BeatDue())
    leader, restored = ring.machines[0].edge, ring.machines[2].edge.member
    history = restored.record.history.until(2)
    missing = TicksMissing(restored.record.promised, history)
    leader.receive(RingParcel(2, restored.record.store, missing))
    assert "rank 2 lacks ticks that are trimmed here" in ring.machines[0].alarms[-1]
    ring.network.clear()
    ring.take(0, b"next")
    assert payloads(ring)[-1] == b"next"


def next_request(machine: Machine, producer: str) -> TickProduction:
    """Return the next request of *producer* as the file of *machine* knows its last one; it has two messages."""
    with machine.engine.connect() as connection:
        found = standings(connection, [key_of(producer)]).get(key_of(producer))
    return TickProduction(key_of(producer), 1 if found is None else found.last.sequence + 1, 0, 0, 2)


def last_requests(ring: RingOfFiles) -> dict[ProducerKey, int]:
    return {each.key: each.sequence for content in ring.released for each in content.productions}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("run", range(6))
@pytest.mark.usefixtures("_short")
def test_random_faults_leave_three_equal_files_with_every_released_tick(ring: RingOfFiles, chance: Random, run: int):
    for _ in range(run):
        chance.random()
    lead(ring, 0)
    entries = 0
    for _ in range(160):
        rank, crash_after = chance.choice(RANKS), chance.choice([None] * 4 + [0, 1, 2, 3])
        match chance.randrange(13):
            case 12 if chance.random() < 0.5:
                # A quiet time, after which the word of the trim meets further faults.
                ring.settle()
                for _ in range(3):
                    ring.take(0, b"quiet")
                ring.trim(0, crash_after)
                ring.post(0, BeatDue())
            case 12:
                ring.trim(rank, crash_after)
            case 0 | 1:
                event = chance.choice([TryDue(), TryDue(), BeatDue(), LeaderUnheard(), FollowersUnheard()])
                ring.post(rank, event, crash_after)
            case 2 | 3:
                entries += 1
                asked = [next_request(ring.machines[rank], f"meter{entries % 3}")]
                ring.offer(rank, transaction(b"%d" % entries, b"second"), crash_after, asked)
            case 4 | 5 | 6 | 7:
                for _ in range(chance.randrange(1, 8)):
                    if ring.network:
                        ring.deliver(0, crash_after)
            case 8 if ring.network:
                index = chance.randrange(len(ring.network))
                ring.deliver(index, crash_after, again=chance.random() < 0.5)
            case 9 if ring.network:
                ring.network.pop(chance.randrange(len(ring.network)))
            case 10:
                if chance.random() < 0.5:
                    ring.cuts.add((rank, chance.choice(RANKS)))
                else:
                    ring.cuts.clear()
            case 11 if all(ring.counts(other) for other in RANKS if other != rank):
                if chance.random() < 0.4:
                    chance.choice([ring.lose_file, ring.lose_disk])(rank)
        del ring.network[:-60]
    ring.settle()
    before = len(ring.released)
    ring.take(0, b"the last")
    assert len(ring.released) == before + 1
    assert payloads(ring)[-1] == b"the last"
    for machine in ring.machines:
        first = machine.store.trimmed()
        assert machine.kept() == ring.released[first:]
        assert payloads_of(machine) == [row.payload for content in ring.released[first:] for row in content.rows]
        with machine.engine.connect() as connection:
            found = standings(connection, last_requests(ring))
        assert {key: each.last.sequence for key, each in found.items()} == last_requests(ring)
    assert [alarm for machine in ring.machines for alarm in machine.alarms if "another tick" in alarm] == []
