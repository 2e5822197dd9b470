"""Processes of a source and a sink are killed at random moments of replays, and each entry comes again once."""

import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client import request_replay, wait_replay
from queues.receive.replays import ReplayState
from tests.conftest import NewSite
from tests.lrq.cli.command import Served, served, spawn
from tests.system.replaying import check, journal, rows, runs, writing_on
from tests.system.world import QUICK
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

OPTIONS: dict[str, Any] = {**QUICK, "lease_seconds": 1.0, "initial_sync": "log"}
#: The segments are short, and the source keeps acknowledged entries.
KEPT: dict[str, Any] = {"segment_seconds": 0.5, "trim_seconds": 0.2, "acknowledged_retention_seconds": 600.0}


class Sites:
    """The server of paris, and the server and the worker of tokyo."""

    def __init__(self, new_site: NewSite, stack: ExitStack, folder: Path, listener: str) -> None:
        self._stack = stack
        self._folder = folder
        self._listener = listener
        self._number = 0
        self.paris, self.tokyo = new_site("paris"), new_site("tokyo")
        journal.metadata.create_all(self.tokyo)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        listens = self._serve("tokyo", self.tokyo, 'listen = ["tcp://127.0.0.1:0"]').facts["endpoints"][0]
        self._more = {
            "tokyo": (self.tokyo, f'listen = ["{listens}"]'),
            "paris": (self.paris, f'[peers]\ntokyo = "{listens}"'),
        }
        self.begin("paris")
        self.begin("worker")

    def begin(self, name: str) -> None:
        """Start a process, also again after its death."""
        if name == "worker":
            self._work()
        else:
            self._serve(name, *self._more[name])

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and start it again."""
        self.running[name].kill()
        self.running[name].wait(30)
        self.begin(name)

    def _serve(self, name: str, engine: Engine, more: str) -> Served:
        config = self._folder / f"{name}.toml"
        url = engine.url.render_as_string(hide_password=False)
        config.write_text(
            "\n".join([*_toml(OPTIONS | KEPT), f'site_id = "{name}"', f'database_url = "{url}"', more, ""])
        )
        made = self._stack.enter_context(served("--config", str(config), folder=self._place(name)))
        self.running[name] = made.process
        return made

    def _work(self) -> None:
        place = self._place("worker")
        place.mkdir()
        with (place / "log").open("wb") as log:
            command = ("work", f"tests.faults.replay_application:{self._listener}", "--config")
            worker = spawn(*command, str(self._folder / "tokyo.toml"), stdout=log, stderr=log, cwd=place)
        self._stack.callback(worker.wait)
        self._stack.callback(worker.kill)
        self.running["worker"] = worker

    def _place(self, name: str) -> Path:
        self._number += 1
        return self._folder / f"{name}-{self._number}"


def _toml(options: dict[str, Any]) -> list[str]:
    return [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in options.items()]


@contextmanager
def killing(sites: Sites, moments: list[tuple[float, str]]) -> Iterator[None]:
    """Kill processes during the block: each name after its seconds."""
    never = threading.Event()

    def kill() -> None:
        for seconds, name in moments:
            never.wait(seconds)
            sites.kill(name)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("listener", ["undoing", pytest.param("plain", marks=pytest.mark.nightly)])
def test_each_entry_comes_again_exactly_once_in_spite_of_kills_at_random_moments(
    new_site: NewSite, tmp_path: Path, seed: int, listener: str
) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        sites = Sites(new_site, stack, tmp_path, listener)
        tokyo, sent = sites.tokyo, list[str]()
        with writing_on(sites.paris, sent):
            for number in range(1, 5):
                applied = eventually(
                    lambda number=number: (found := runs(rows(tokyo)))[number - 1 :] and found[-1][15:]
                )
                del applied
                first = chance.choice(runs(rows(tokyo))[-1])[0]
                names = chance.sample(["tokyo", "worker", "paris"], 2)
                moments = [(chance.uniform(0, 0.8), name) for name in names]
                print(f"replay {number} from {first}, kills {moments}")
                with killing(sites, moments):
                    order = request_replay(tokyo, "policy", "paris", start=first, undo=listener == "undoing")
                    done = wait_replay(tokyo, order, 90)
                    assert done.state is ReplayState.BEGUN, done.outcome
                    eventually(lambda number=number: runs(rows(tokyo))[number:] and runs(rows(tokyo))[-1])
        eventually(lambda: runs(rows(tokyo))[-1][-1][1] == sent[-1])
        check(rows(tokyo), sent, replays=4)
        with sites.paris.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM lrq_snapshots").scalar() == 0
