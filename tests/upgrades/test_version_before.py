"""Processes of lrq work beside those of the version before, and replace them one by one."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Engine, create_engine, text

from tests.upgrades.versions import Running, Version
from tests.waiting import eventually

pytestmark = pytest.mark.processes

#: The number of entries that must arrive after each change.
ENOUGH = 30


@dataclass
class Sites:
    """The sites paris and tokyo, one program of each kind, and the table of the application at tokyo."""

    paris: str
    tokyo: str
    folder: str
    engine: Engine
    running: dict[str, Running] = field(default_factory=dict)

    def begin(self, version: Version, name: str, *, beside: bool = False) -> None:
        """Start the program *name* with *version*; *beside* another server of tokyo, at an endpoint of its own."""
        first, second = (f"ipc://{self.folder}/{number}.sock" for number in ("tokyo", "beside"))
        endpoint = second if beside else first
        quick = {"idle_poll_seconds": 0.02, "retry_cap_seconds": 0.5, "initial_sync": "log"}
        paris = {
            "site_id": "paris",
            "database_url": self.paris,
            "listen": [],
            "peers": {"tokyo": f"{first}, {second}"},
            **quick,
        }
        tokyo = {"site_id": "tokyo", "database_url": self.tokyo, "listen": [endpoint], **quick}
        arguments = {
            "paris": ("serve", json.dumps(paris)),
            "tokyo": ("serve", json.dumps(tokyo)),
            "sender": ("send", self.paris, str(self.sent + 1)),
            "receiver": ("receive", self.tokyo),
        }
        self.running[f"{name} beside" if beside else name] = version.start(*arguments[name])

    sent: int = 0

    def end(self, name: str) -> None:
        """Stop the program *name*."""
        said = self.running.pop(name).stop()
        if name == "sender":
            self.sent = int(said)

    def applied(self) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.execute(text("SELECT number FROM applied ORDER BY n")).scalars())

    def require_progress(self) -> None:
        """Wait until enough further entries are applied, with all programs running."""
        before = len(self.applied())
        eventually(lambda: len(self.applied()) >= before + ENOUGH or self.ended(), timeout=60)
        assert self.ended() == []

    def ended(self) -> list[str]:
        """Name the programs that have ended by themselves."""
        return [name for name, program in self.running.items() if not program.works]

    def require_all(self) -> None:
        """Stop the sender, and require each entry once and in order."""
        self.end("sender")
        eventually(lambda: len(self.applied()) >= self.sent, timeout=60)
        assert self.applied() == list(range(1, self.sent + 1))


@pytest.fixture
def sites(new_database: Callable[[], str], dialect: str) -> Iterator[Sites]:
    serial = "SERIAL" if dialect == "postgresql" else "INTEGER"
    with ExitStack() as stack:
        # A path of a Unix socket must be short.
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tokyo = new_database()
        engine = create_engine(tokyo)
        stack.callback(engine.dispose)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE applied (n {serial} PRIMARY KEY, number INTEGER NOT NULL)"))
        made = Sites(new_database(), tokyo, folder, engine)
        stack.callback(lambda: [program.abandon() for program in made.running.values()])
        yield made


@pytest.mark.parametrize("source_is_new", [True, False], ids=["new source", "new sink"])
def test_sites_of_both_versions_exchange_entries(
    sites: Sites, before: Version, now: Version, source_is_new: bool
) -> None:
    source, sink = (now, before) if source_is_new else (before, now)
    for version, url, name in ((source, sites.paris, "paris"), (sink, sites.tokyo, "tokyo")):
        version.run("init", url, name)
        sites.begin(version, name)
    sites.begin(sink, "receiver")
    sites.begin(source, "sender")
    sites.require_progress()
    sites.require_all()


def test_the_version_before_is_replaced_one_by_one_and_no_entry_is_lost(
    sites: Sites, before: Version, now: Version
) -> None:
    for url, name in ((sites.paris, "paris"), (sites.tokyo, "tokyo")):
        before.run("init", url, name)
    for name in ("tokyo", "paris", "receiver", "sender"):
        sites.begin(before, name)
    sites.require_progress()
    now.run("init", sites.paris, "paris")
    sites.require_progress()
    # Sinks and subscribers of the version before wait for their successors: the table of their entries is gone.
    now.run("init", sites.tokyo, "tokyo")
    for names in (["tokyo", "receiver"], ["paris"], ["sender"]):
        for name in names:
            sites.end(name)
            sites.begin(now, name)
        sites.require_progress()
    sites.require_all()


@pytest.mark.nightly
def test_a_server_starts_beside_one_of_the_version_before_and_takes_its_place(
    sites: Sites, before: Version, now: Version
) -> None:
    for url, name in ((sites.paris, "paris"), (sites.tokyo, "tokyo")):
        before.run("init", url, name)
    for name in ("tokyo", "paris", "receiver", "sender"):
        sites.begin(before, name)
    sites.require_progress()
    for url, name in ((sites.paris, "paris"), (sites.tokyo, "tokyo")):
        now.run("init", url, name)
    sites.end("paris")
    sites.begin(now, "tokyo", beside=True)
    sites.begin(now, "paris")
    sites.end("tokyo")
    sites.end("receiver")
    sites.begin(now, "receiver")
    sites.require_progress()
    sites.require_all()
