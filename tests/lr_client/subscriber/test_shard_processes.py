"""Processes that share the shards of a client, and are killed."""

import os
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.sharding import move_slots, set_shards
from queues.names import ClientName
from queues.shard_maps import new_map
from tests.lr_client.subscriber.applying import story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.test_shards import KEYS, check, entries
from tests.waiting import eventually

pytestmark = pytest.mark.processes

POLICY = ClientName("policy")


@pytest.fixture
def processes(sink: Engine) -> Iterator["Processes"]:
    made = Processes(sink)
    yield made
    made.kill_all()


class Processes:
    """Subscriptions of one client, each a process."""

    def __init__(self, sink: Engine, mode: str = "") -> None:
        self._mode = mode
        self._begun = 0
        self._url = sink.url.render_as_string(hide_password=False)
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.lr_client.subscriber.consumer_process", self._url, self._mode]
        self._begun += 1
        # Sets of texts have another order in each process.
        environment = {**os.environ, "PYTHONHASHSEED": str(self._begun)}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.running.append(process)
        assert process.stdout.readline() == "subscribed\n"

    def kill(self, chance: random.Random) -> None:
        process = self.running.pop(chance.randrange(len(self.running)))
        process.kill()
        process.communicate()

    def kill_all(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


def test_killed_processes_that_share_shards_apply_each_entry_once(
    sink: Engine, tokyo: Arrivals, processes: Processes
) -> None:
    seed = int(os.environ.get("LRQ_TEST_SEED", secrets.randbits(32)))
    print(f"LRQ_TEST_SEED={seed}")
    chance = random.Random(seed)
    set_shards(sink, "policy", 4)
    hashed = new_map(1, 4, "hash")
    tokyo.keyed(*entries(range(20)))
    for _ in range(2):
        processes.start()
    count, shards = 20, 4
    for moment in range(5):
        tokyo.keyed(*entries(range(count, count + 40)))
        count += 40
        if moment == 2:
            shards = 3
            set_shards(sink, "policy", shards)
        else:
            move_slots(sink, "policy", {hashed.slot(key): chance.randrange(shards) for key in chance.sample(KEYS, 3)})
        seen = chance.randrange(count - 40, count)
        eventually(lambda seen=seen: len(story(sink)) >= seen)
        processes.kill(chance)
        processes.start()
    eventually(lambda: tokyo.left == 0)
    check(story(sink), count)
