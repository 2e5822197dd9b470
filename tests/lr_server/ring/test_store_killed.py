"""A killed process leaves in its file all that a store had returned, and nothing of a half effect."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from queues.send_log.opening import open_log
from tests.conftest import NewSite
from tests.lr_server.ring.stores import new_store, open_store

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
#: Writes ticks without an end; replaces the last ones now and then; prints each end that is durable.
PROGRAM = """
import sys
import queues
from tests.lr_server.ring.stores import begin, open_store, take, transaction
from lr_server.protocol.agreement.effects import KeepPromise

store = open_store(queues.create_engine(sys.argv[1]))
generation = 2
begin(generation, store)
while True:
    for _ in range(3):
        end = take([transaction(b"x" * 500, b"y" * 500)], store).tick
        print("end", generation, end.number, end.uid, flush=True)
    generation += 1
    store.keep(KeepPromise(generation))
    print("promise", generation, 0, 0, flush=True)
    begin(generation, store)
"""


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_that_a_store_has_returned_is_in_the_file_after_a_kill(new_site: NewSite, chance: Random) -> None:
    engine = new_site("paris")
    new_store(engine).close()
    url = engine.url.render_as_string(hide_password=False)
    printed: list[tuple[str, int, int, int]] = []
    command = [sys.executable, "-c", PROGRAM, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ}) as process:
        assert process.stdout is not None
        for _ in range(chance.randrange(5, 60)):
            kind, *numbers = process.stdout.readline().split()
            printed.append((kind, *map(int, numbers)))
        process.send_signal(signal.SIGKILL)
        printed += [(line.split()[0], *map(int, line.split()[1:])) for line in process.stdout if line.endswith("\n")]
    store = open_store(engine)
    record = store.record()
    assert record is not None, f"a killed process leaves a store that is not believed: {store.doubt}"
    assert record.promised >= max(generation for _, generation, *_ in printed)
    ends = [each for each in printed if each[0] == "end"]
    kept = {content.tick.number: content for content in store.read(0, 10_000)}
    for _, generation, number, uid in ends:
        assert (kept[number].generation, kept[number].tick.uid) == (generation, uid)
        assert [row.payload for row in kept[number].rows] == [b"x" * 500, b"y" * 500]
    assert record.history.end == max(kept)
    assert list(kept) == list(range(1, max(kept) + 1))
    assert open_log(engine).bounds().newest == kept[max(kept)].tick
