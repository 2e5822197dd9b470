"""`lrq subscribe`: shows and changes the shards of a client; `lrq status` shows each shard."""

import threading

import pytest

from lr_client.subscriber.subscription import subscribe
from queues.names import ClientName
from queues.receive.registry import registered
from queues.receive.shard_marks import changes_of
from queues.receive.shard_upkeep import MAX_CHANGES
from queues.shard_maps import new_map
from tests.lr_client.subscriber.applying import Apply, applied
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually


@pytest.fixture
def run(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq subscribe` on the site."""
    return lambda *arguments: lrq("subscribe", *arguments, "--database", source.url)


def test_the_number_of_shards_is_shown_and_changed(run):
    assert run("shards", "policy").out == "policy has 1 shard\n"
    assert run("shards", "policy", "4").out == "policy has 4 shards by hash, version 1\n"
    assert run("shards", "policy", "4").out == "policy has 4 shards by hash, version 1 already\n"
    assert run("shards", "policy", "1").out == "policy has 1 shard by hash, version 2\n"
    facts = run("shards", "policy", "2", "--partitioner", "range(m)", "--json").json
    assert (facts["changed"], facts["version"], facts["owners"]) == (True, 3, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shards", "policy", "0"), "shards is 0: choose a number from 1 to 256"),
        (("shards", "policy", "4", "--partitioner", "hsah"), "there is no partitioner hsah"),
        (("move", "policy", "3", "--to", "1"), "policy has one shard here"),
    ],
)
def test_a_wrong_map_is_refused_in_one_line(run, arguments: tuple[str, ...], words: str):
    done = run(*arguments)
    assert done.code == 2
    assert words in done.error
    assert run("shards", "policy").out == "policy has 1 shard\n"


def test_slots_are_moved(run):
    run("shards", "policy", "4")
    assert run("move", "policy", "3", "5", "--to", "0").out == "2 slots of policy moved to shard 0, version 2\n"
    owners = run("shards", "policy", "--json").json["owners"]
    assert owners[:6] == [0, 1, 2, 0, 0, 0]
    assert "the map names the shards 7" in run("move", "policy", "3", "--to", "7").error


def test_a_change_that_must_wait_for_a_standing_shard_says_so(run, source: SourceSite):
    applied.metadata.create_all(source.engine)
    tokyo = Arrivals(source.engine)
    held = threading.Event()

    def refuse(entry):
        if entry.partition_key == "bad" and not held.is_set():
            raise ValueError("poisoned")

    def in_force() -> list[int]:
        with source.engine.connect() as connection:
            (queue,) = registered(connection, ClientName("policy"))
            return [each.version for each in changes_of(connection, queue.queue_id)]

    tokyo.keyed([("good", b"x")])
    with subscribe(source.engine, Apply(refuse), shards=2, poll_interval=0.02, backoff=0.01, max_backoff=0.05):
        eventually(lambda: tokyo.left == 0)
        tokyo.keyed([("bad", b"y")])
        for version in range(2, MAX_CHANGES + 1):
            tokyo.keyed(*([(f"k{number}", b"x")] for number in range(20)))
            assert "not yet" not in run("shards", "policy", str(version + 1)).out
            eventually(lambda wanted=version: wanted in in_force())
        late = run("shards", "policy", "2")
        assert "not yet for the entries from tokyo: too many earlier versions hold there" in late.out
        assert run("shards", "policy", "--json").json["waiting_sources"] == ["tokyo"]
        held.set()
        eventually(lambda: run("shards", "policy", "--json").json["waiting_sources"] == [])


def test_status_shows_each_shard(lrq: Command, source: SourceSite):
    applied.metadata.create_all(source.engine)
    tokyo = Arrivals(source.engine)

    def refuse(entry):
        if entry.partition_key == "bad":
            raise ValueError("poisoned")

    tokyo.keyed(*([(f"k{number}", b"x")] for number in range(20)))
    with subscribe(source.engine, Apply(refuse), shards=3, poll_interval=0.02, backoff=0.01):
        eventually(lambda: tokyo.left == 0)
        end = tokyo.keyed([("bad", b"y")])
        bad = new_map(1, 3, "hash")
        shard = bad.owners[bad.slot("bad")]

        def rows():
            (queue,) = lrq("status", "--json", "--database", source.url).json["receive_queues"]
            return queue, {each["shard"]: each for each in queue["shards"]}

        eventually(lambda: rows()[1][shard]["failure"])
        eventually(lambda: sum(each["applied_seq"] == end for each in rows()[1].values()) == 2)
        queue, shards = rows()
        assert all(each["owner"] for each in shards.values())
        assert sum(each["applied_total"] for each in shards.values()) == 20
        assert (queue["applied_seq"], queue["subscribed"]) == (20, True)
        assert queue["failure"]["error"].startswith("ValueError (test_subscribe.py, line ")
        done = lrq("status", "--database", source.url)
    assert done.code == 3
    assert "Shards" in done.out
    assert "ValueError (test_subscribe.py" in done.out
    assert "poisoned" not in done.out
