"""Three processes of a ring are killed and paused at random. Each tick that any of them has seen released stays.

Each process offers entries while it leads. The process prints an entry once it knows the entry's tick as released.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine

from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.record import founders
from lr_server.ring.founding import found
from queues.database.transactions import reading
from queues.send_log.ring.ring_log import read_ticks
from queues.send_log.ring.tick_contents import TickContent
from tests.conftest import NewSite
from tests.forked import Popen
from tests.lr_server.ring.stores import UIDS, open_store
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys, threading
import queues
from lr_server.protocol.agreement.effects import Decline
from lr_server.ring.links import RingLink
from lr_server.ring.runner import TokenRunner
from tests.lr_server.ring.live import ADDRESS, PACE, serve_member
from tests.lr_server.ring.stores import open_store, transaction

url, rank, folder, run = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
engine = queues.create_engine(url)
places = [f"ipc://{folder}/{each}.sock" for each in range(3)]
links = {each: RingLink(ADDRESS, each, places[each]) for each in range(3) if each != rank}
runner = TokenRunner(lambda: open_store(engine), rank, links, pace=PACE)
service = serve_member(engine, runner, places[rank])
runner.start()
pause, over = threading.Event(), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("begun", flush=True)
number = 0
while not over.is_set():
    payload = f"{rank}/{run}/{number}"
    number += 1
    answer = runner.offer([transaction(payload.encode())]).result()
    if isinstance(answer, Decline):
        pause.wait(0.05)
        continue
    while (member := runner.member) is not None and member.record.history.holds(answer):
        if member.released >= answer.seq:
            print("released", answer.seq, payload, flush=True)
            break
        pause.wait(0.002)
pause.wait()
"""


class Served:
    """The process of one member, begun again after each kill; `printed` has the lines of all its processes."""

    def __init__(self, engine: Engine, rank: int, folder: Path) -> None:
        self.engine, self.rank, self.folder = engine, rank, folder
        self.printed: list[tuple[int, bytes]] = []
        self.runs = 0
        self.begin()

    def begin(self) -> None:
        url = self.engine.url.render_as_string(hide_password=False)
        arguments = [url, str(self.rank), str(self.folder), str(self.runs)]
        self.runs += 1
        self.process = Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=dict(os.environ),
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()

    def _read(self, process: subprocess.Popen) -> None:
        for line in process.stdout:
            words = line.split()
            if words[0] == "released" and line.endswith("\n"):
                self.printed.append((int(words[1]), words[2].encode()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def log(self) -> list[TickContent]:
        contents: list[TickContent] = []
        with reading(self.engine) as connection:
            while page := read_ticks(connection, len(contents), 500, 10**8):
                contents += page
        return contents


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def processes(new_site: NewSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Served]]:
    engines = [new_site("paris") for _ in RANKS]
    for rank, engine in enumerate(engines):
        with closing(open_store(engine)) as store:
            found(store, founders(UIDS)[rank])
    # The path of a Unix socket is short.
    folder = tmp_path_factory.mktemp("r")
    started = [Served(engine, rank, folder) for rank, engine in enumerate(engines)]
    yield started
    for each in started:
        each.kill()


def test_released_ticks_survive_kills_and_pauses_of_any_process(processes: list[Served], chance: Random) -> None:
    def printed() -> int:
        return sum(len(each.printed) for each in processes)

    def go_on(more: int) -> None:
        """Wait until that many more entries are released."""
        before = printed()
        eventually(lambda: printed() >= before + more, timeout=240)

    go_on(5)
    for _ in range(5):
        victim = chance.choice(processes)
        if chance.random() < 0.7:
            victim.kill()
            go_on(chance.randrange(1, 20))
            victim.begin()
        else:
            victim.process.send_signal(signal.SIGSTOP)
            go_on(chance.randrange(1, 20))
            victim.process.send_signal(signal.SIGCONT)
        go_on(chance.randrange(1, 20))
    for each in processes:
        each.process.stdin.close()

    def level() -> list[TickContent] | None:
        logs = [each.log() for each in processes]
        return logs[0] if logs[0] == logs[1] == logs[2] and len(logs[0]) >= newest() else None

    def newest() -> int:
        return max(seq for each in processes for seq, _ in each.printed)

    log = eventually(level, timeout=240)
    payloads = [row.payload for content in log for row in content.rows]
    assert len(set(payloads)) == len(payloads), "an entry is there twice"
    for each in processes:
        for seq, payload in each.printed:
            there = [row.payload for row in log[seq - 1].rows]
            assert there == [payload], f"rank {each.rank} saw {payload!r} released as tick {seq}, now it is {there}"
