"""Real processes of a source and of two members: the active member is killed, and readers read each entry once."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

import lrq
from lr_client import ActiveMember, active_member, require_continued
from queues.errors import ConfigurationError, ServingUnknownError
from queues.positions import Position
from tests.conftest import NewSite
from tests.faults.replica_application import kept
from tests.lrq.cli.command import Done, Served, lrq_process, served, spawn
from tests.system.world import QUICK
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]

MEMBERS = ("tokyo-a", "tokyo-b")


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


class Reader:
    """Reads each entry of the group once, at the member that serves, from the tables of the application there."""

    def __init__(self, source: Engine, members: dict[str, Engine]) -> None:
        self._source = source
        self._members = members
        self._position: Position | None = None
        self._known = 0
        self.payloads: list[bytes] = []
        self.generations: list[int] = []

    def read(self) -> None:
        try:
            found = active_member(self._source, "tokyo", known=self._known)
        except (ConfigurationError, ServingUnknownError):
            return
        with self._members[found.member].connect() as connection:
            if found.generation != self._known and self._position is not None:
                try:
                    require_continued(connection, "policy", "paris", self._position)
                except ServingUnknownError:
                    return
            after = -1 if self._position is None else self._position.seq
            ordered = select(kept).where(kept.c.sequence > after).order_by(kept.c.sequence)
            for branch, sequence, payload in connection.execute(ordered):
                self._position = Position(branch, sequence)
                self.payloads.append(payload)
        if found.generation != self._known:
            self._known = found.generation
            self.generations.append(found.generation)


class Group:
    """The processes of site paris, and a server and a worker of each member."""

    def __init__(self, new_site: NewSite, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self.engines = {name: new_site(name) for name in ("paris", *MEMBERS)}
        self.sent: list[bytes] = []
        self.servers: dict[str, Served] = {}
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.endpoints: dict[str, str] = {}
        for member in MEMBERS:
            kept.metadata.create_all(self.engines[member])
            self.begin(member, "tcp://127.0.0.1:0")
            self.endpoints[member] = self.servers[member].facts["endpoints"][0]
        self.config = self._write("paris", MEMBERS)
        paris = stack.enter_context(served("--config", str(self.config), folder=folder / "paris"))
        self.servers["paris"] = paris

    def begin(self, member: str, listen: str) -> None:
        """Start the server and the worker of a member."""
        config = self._folder / f"{member}.toml"
        lines = [*_quick(), f'site_id = "{member}"', f'database_url = "{url_of(self.engines[member])}"']
        config.write_text("\n".join([*lines, f'listen = ["{listen}"]', ""]))
        number = len(list(self._folder.glob(f"{member}-*")))
        place = self._folder / f"{member}-{number}"
        self.servers[member] = self._stack.enter_context(served("--config", str(config), folder=place))
        with (place / "work").open("wb") as log:
            command = ("work", "tests.faults.replica_application:keep", "--config", str(config))
            worker = spawn(*command, stdout=log, stderr=log, cwd=place)
        self._stack.callback(worker.wait)
        self._stack.callback(worker.kill)
        self.workers[member] = worker

    def _write(self, site: str, members: tuple[str, ...]) -> Path:
        config = self._folder / f"{site}.toml"
        listed = ", ".join(f'"{member}"' for member in members)
        peers = [f'{member} = "{self.endpoints[member]}"' for member in members]
        lines = [*_quick(), f'site_id = "{site}"', f'database_url = "{url_of(self.engines[site])}"']
        config.write_text("\n".join([*lines, "[peers]", *peers, "[replicas]", f"tokyo = [{listed}]", ""]))
        return config

    def kill(self, member: str) -> None:
        """Kill both processes of a member with SIGKILL."""
        for process in (self.servers[member].process, self.workers[member]):
            process.kill()
            process.wait(30)

    def transmit(self) -> None:
        payload = f"entry {len(self.sent)}".encode()
        with Session(self.engines["paris"]) as session, session.begin():
            lrq.RoutingQueueSenderClient("policy").transmit_log_entry_message(session, payload, ["tokyo"])
        self.sent.append(payload)

    def promote(self, member: str, *options: str) -> Done:
        done = lrq_process("replica", "promote", member, "--config", str(self.config), *options)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def state_of(self, member: str) -> str:
        """Return the state of the session with *member*, as the source has saved it last."""
        with self.engines["paris"].connect() as connection:
            found = connection.execute(text("SELECT state FROM lrq_sessions WHERE destination = :to"), {"to": member})
            return str(found.scalar_one())

    def active(self) -> ActiveMember | None:
        try:
            return active_member(self.engines["paris"], "tokyo")
        except ConfigurationError:
            return None


def _quick() -> list[str]:
    texts = (f'"{value}"' if isinstance(value, str) else value for value in QUICK.values())
    return [f"{name} = {value}" for name, value in zip(QUICK, texts, strict=True)]


@pytest.fixture
def group(new_site: NewSite, tmp_path: Path) -> Iterator[Group]:
    with ExitStack() as stack:
        folder = tmp_path / "sites"
        folder.mkdir()
        yield Group(new_site, stack, folder)


@contextmanager
def going_on(*acts: Callable[[], None]) -> Iterator[None]:
    """Repeat each of *acts* in a thread of its own until the end of the block, which raises their errors."""
    ending = threading.Event()
    errors: list[BaseException] = []

    def go(act: Callable[[], None]) -> None:
        try:
            while not ending.is_set():
                act()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=go, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_readers_read_each_entry_once_across_promotions_and_the_death_of_the_active_member(group: Group) -> None:
    reader = Reader(group.engines["paris"], {member: group.engines[member] for member in MEMBERS})

    def has_read(count: int) -> None:
        least = len(reader.payloads) + count
        eventually(lambda: len(reader.payloads) >= least)

    eventually(group.active)
    with going_on(group.transmit, reader.read):
        has_read(20)
        moved = group.promote("tokyo-b")
        assert moved.code == 0, moved.err
        assert group.promote("tokyo-b").out.startswith("tokyo-b serves for tokyo already")
        has_read(20)
        group.kill("tokyo-b")
        back = group.promote("tokyo-a")
        assert back.code == 0, back.err
        has_read(20)
        eventually(lambda: group.state_of("tokyo-b") != "log-entry sync")
        refused = group.promote("tokyo-b", "--timeout", "1")
        assert refused.code == 3
        assert "tokyo-b" in refused.error
        group.begin("tokyo-b", group.endpoints["tokyo-b"])
        again = eventually(lambda: (done := group.promote("tokyo-b")).code == 0 and done, timeout=90)
        assert again.out.startswith("tokyo-b serves for tokyo now")
        has_read(20)
    eventually(lambda: reader.read() or reader.payloads == group.sent)
    assert reader.generations == sorted(set(reader.generations))
    assert len(reader.generations) == 4
