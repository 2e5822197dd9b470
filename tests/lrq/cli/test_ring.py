"""`lrq ring`: founds members, and tells the problems."""

from collections.abc import Callable
from pathlib import Path

import pytest

import queues
from discovery.ring_status import RingStatus
from lr_server.ring.look import decode_status, encode_status
from lrq.cli.ring.members import MemberView, ring_trouble
from tests.lrq.cli.command import Command, Done

#: Runs a command of `lrq ring` at the server of a rank.
Ring = Callable[..., Done]


@pytest.fixture
def ring(lrq: Command, tmp_path: Path) -> Ring:
    members = ", ".join(f'"ipc://{tmp_path}/m{rank}"' for rank in range(3))

    def run(*words: str, rank: int = 0, table: bool = True, command: str = "ring") -> Done:
        config, database = tmp_path / f"{rank}.toml", tmp_path / f"{rank}.db"
        if not config.exists():
            engine = queues.create_engine(f"sqlite:///{database}")
            queues.initialize(engine, site_id="paris")
            engine.dispose()
        ring = f'[ring]\nmembers = [{members}]\nrank = {rank}\nwitness = "{tmp_path}/{rank}.witness"\n'
        config.write_text(
            f'site_id = "paris"\ndatabase_url = "sqlite:///{database}"\nlisten = ["ipc://{tmp_path}/m{rank}"]\n'
            f'ingest = true\n[producers."*"]\n{ring if table else ""}'
        )
        return lrq(command, *words, "--config", str(config))

    return run


def test_the_first_founder_prints_the_key_for_both_others(ring: Ring):
    done = ring("init")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first == "rank 0 of the ring paris is founded"
    key = second.removeprefix("at both other servers run: lrq ring init --key ")
    assert ring("init", "--key", key, rank=2).out == "rank 2 of the ring paris is founded\n"
    # Repeated after a broken connection, for example.
    assert ring("init", "--key", key, "--json", rank=2).json == {"site": "paris", "rank": 2, "key": key}


def test_only_rank_0_makes_a_key(ring: Ring):
    done = ring("init", rank=1)
    assert (done.code, done.out) == (1, "")
    assert "found rank 0 first, and give its key with --key" in done.error


def test_a_store_is_founded_with_one_key_only(ring: Ring):
    ring("init")
    assert "already" in ring("init", "--key", "0" * 32).error


def test_a_key_of_another_form_is_refused(ring: Ring):
    assert "copy it from the first member" in ring("init", "--key", "abc").error


def test_without_the_table_there_is_no_ring(ring: Ring):
    assert "write a table [ring]" in ring("init", table=False).error


def test_the_status_tells_which_members_do_not_answer(ring: Ring):
    done = ring("status")
    assert done.code == 3
    assert "no member leads, so the ring takes no entries" in done.error
    assert done.out.count("unknown") == 3
    told = ring("status", "--json")
    assert [each["status"] for each in told.json["members"]] == [None] * 3
    problems = [each["problem"] for each in told.json["members"]]
    assert all("cannot be asked" in each for each in problems), problems
    assert not any("last error" in each for each in problems), "\n".join(problems)


def test_a_member_that_does_not_lead_cannot_tell_that_all_is_drained(ring: Ring):
    ring("init")
    done = ring("--timeout", "0", command="drain")
    assert (done.code, done.out) == (3, "")
    assert done.error.endswith("this member of the ring does not lead: run the command at the member that leads")


def test_settings_that_differ_between_the_members_are_a_trouble():
    def told(name: str, *numbers: int) -> str:
        roles = ("leading", "following", "following")
        states = [RingStatus(rank, roles[rank], 2, 0, **{name: numbers[rank]}) for rank in range(3)]
        return ring_trouble([MemberView(state.rank, "ipc:///m", state) for state in states])

    assert told("rings", 3, 3, 3) == ""
    assert told("rings", 6, 3, 6).startswith("`rings` differs (6 at rank 0, 3 at rank 1, 6 at rank 2): set one number")
    assert told("acknowledging_followers", 2, 2, 2) == ""
    words = "`acknowledging_followers` differs (2 at rank 0, 1 at rank 1, 2 at rank 2): set one number"
    assert told("acknowledging_followers", 2, 1, 2).startswith(words)


def test_a_leader_that_misses_a_needed_follower_is_a_trouble():
    states = [RingStatus(0, "leading", 2, 0, acknowledging_followers=2, silent=(2,)), RingStatus(1, "following", 2, 0)]
    assert ring_trouble([MemberView(state.rank, "ipc:///m", state) for state in states]) == (
        "rank 0: rank 2 is silent, and acknowledging_followers is 2, so the ring takes no entries: start that server, "
        "or mend the network"
    )


def test_an_alarm_of_any_member_is_a_trouble():
    def told(*states: RingStatus) -> str:
        return ring_trouble([MemberView(state.rank, "ipc:///m", state) for state in states])

    leading, following = RingStatus(0, "leading", 2, 0), RingStatus(1, "following", 2, 0)
    assert told(RingStatus(0, "leading", 2, 0, alarm="rank 2 lacks ticks"), following) == "rank 0: rank 2 lacks ticks"
    assert told(leading, RingStatus(1, "following", 2, 0, alarm="another tick")) == "rank 1: another tick"
    alone = RingStatus(1, "following", alarm="rank 0 was founded with another key")
    assert told(RingStatus(0, "proposing"), alone) == (
        "no member leads, so the ring takes no entries (rank 1: rank 0 was founded with another key)"
    )


@pytest.mark.parametrize(
    ("held", "behind"), [((0, 500, 0), 500), ((0, 500, 371), 129), ((0, 500, 372), 0), ((0, 500, 500), 0)]
)
def test_a_follower_that_the_leader_does_not_hear_is_a_trouble(held: tuple[int, ...], behind: int):
    leading = RingStatus(0, "leading", 2, 0, newest=500, released=500, held=held)
    others = [RingStatus(rank, "following", 2, 0, newest=500) for rank in (1, 2)]
    told = ring_trouble([MemberView(state.rank, "ipc:///m", state) for state in (leading, *others)])
    words = f"rank 2: rank 0 has no acknowledgement of the last {behind} ticks" if behind else ""
    assert told.startswith(words)
    assert bool(told) == bool(behind)


def test_a_member_of_an_earlier_version_counts_one_ring_and_one_follower():
    status = RingStatus(0, "leading", rings=3, acknowledging_followers=2, silent=(1,))
    reply = encode_status(status)
    assert decode_status(reply) == status
    reply.ClearField("rings")
    reply.ClearField("acknowledging_followers")
    earlier = decode_status(reply)
    assert (earlier.rings, earlier.acknowledging_followers) == (1, 1)


def test_a_member_that_does_not_lead_is_well_without_a_server(ring: Ring):
    ring("init")
    status = ring(command="status")
    assert "this member of the ring does not lead: see `lrq ring status`" in status.out
    assert (status.code, ring("--json", command="status").json["ring_rank"]) == (0, 0)
    found = {each["check"]: each for each in ring("--json", command="doctor").json["findings"]}
    assert found["server"]["level"] == "ok"
    assert "`lrq ring status` asks all members" in found["server"]["sentence"]
