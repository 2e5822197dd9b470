"""Producers and forks: a server with workers often makes its objects before it forks them."""

import os
import subprocess
import sys

import pytest

from tests.system.world import World

pytestmark = [pytest.mark.processes, pytest.mark.long]

_BEGIN = """
import os, sys
from lr_client.producer import Producer
from queues.errors import LrqError

producer = Producer(sys.argv[1], client="meters", producer="web")

def told(payload, sender=producer):
    try:
        sender.send([(payload, ["tokyo"])], timeout=20)
        print(payload.decode(), "is stored", flush=True)
    except LrqError as error:
        print(payload.decode(), type(error).__name__, flush=True)
"""

#: Two workers of a producer that no process has used before. The first one goes on after the second one.
_UNUSED = """
begun, go_on = os.pipe(), os.pipe()
if not os.fork():
    told(b"a1")
    os.write(begun[1], b".")
    os.read(go_on[0], 1)
    told(b"a2")
    os._exit(0)
os.read(begun[0], 1)
if not os.fork():
    told(b"b1")
    os._exit(0)
assert os.wait()[1] == 0
os.write(go_on[1], b".")
assert os.wait()[1] == 0
"""

_USED = """
told(b"parent")
if not os.fork():
    told(b"child")
    producer.close()
    told(b"own", Producer(sys.argv[1], client="meters", producer="web-1"))
    os._exit(0)
assert os.wait()[1] == 0
told(b"again")
"""


def printed(program: str, endpoint: str) -> list[str]:
    command = [sys.executable, "-c", _BEGIN + program, endpoint]
    # The tests switch gRPC's care for forks off, which is on by default.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def stored(world: World) -> list[str]:
    rows = world.execute("paris", "SELECT payload FROM lrq_log_entries_0 ORDER BY id")
    return [bytes(row.payload).decode() for row in rows]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_each_entry_of_which_a_forked_worker_was_told_is_stored(world: World) -> None:
    endpoint = world.server("paris", ingest=True, producers={"*": {}}).endpoints[0]
    lines = printed(_UNUSED, endpoint)
    assert lines == ["a1 is stored", "b1 is stored", "a2 ProducerTakenError"]
    assert stored(world) == ["a1", "b1"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_producer_in_use_stays_with_its_process_and_a_child_makes_its_own(world: World) -> None:
    endpoint = world.server("paris", ingest=True, producers={"*": {}}).endpoints[0]
    lines = printed(_USED, endpoint)
    assert lines == ["parent is stored", "child UsageError", "own is stored", "again is stored"]
    assert stored(world) == ["parent", "own", "again"]
