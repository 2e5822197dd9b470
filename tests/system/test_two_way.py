"""`docs/two-way.md`: sites that change one table agree in the end, and no applied row travels back."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from psycopg.errors import DeadlockDetected
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import lrq
from tests.conftest import NewSite
from tests.house.page_blocks import take
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.long

(PROGRAM,) = take(__name__, "docs/two-way.md", "python")
TABLES = {
    dialect: take(__name__, "docs/two-way.md", language)[0]
    for dialect, language in (("postgresql", "plpgsql"), ("sqlite", "sql"))
}
POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
#: A statement ends with its line; the body of a function or of a trigger belongs to its statement.
STATEMENT = re.compile(
    r"^CREATE FUNCTION.*?\$\$;|^CREATE TRIGGER[^;]*?BEGIN\n.*?\nEND;|^\w.*?;$", re.DOTALL | re.MULTILINE
)
INSERT = text("INSERT INTO orders (id, name) VALUES (:id, 'new')")
RENAME = text("UPDATE orders SET name = :name WHERE id = :id")
REMOVE = text("UPDATE orders SET deleted = 1 WHERE id = :id")


class Offices:
    """Sites with the table, the listener and the provider of the page, each a peer of some others."""

    def __init__(
        self, world: World, stack: ExitStack, chance: random.Random, peers: dict[str, list[str]], origin: str = "other"
    ) -> None:
        self.world = world
        self.peers = peers
        self.origin = origin
        self.chance = chance
        #: The source, and the site that made the change, of each entry of a log that a site has applied.
        self.applied: dict[str, list[tuple[str, str]]] = {site: [] for site in peers}
        self._stack = stack
        for site, others in peers.items():
            self._make_table(site, others)

    def _make_table(self, site: str, others: Sequence[str]) -> None:
        dialect = self.world.site(site).dialect.name
        names = {"paris": site, "tokyo": ("','" if dialect == "postgresql" else ",").join(others), "other": self.origin}
        statements = STATEMENT.findall(TABLES[dialect])
        assert len(statements) >= 4
        for statement in statements:
            self.world.execute(site, re.sub("paris|tokyo|other", lambda found: names[found[0]], statement))

    def open(self) -> None:
        for site, others in self.peers.items():
            self.world.server(site, listen=[], peers={each: f"local:{each}" for each in others})
            names: dict[str, Any] = {}
            exec(PROGRAM, names)
            self._subscribe(site, names["copies"])
            self.world.provide(site, names["provider"], client="orders")

    def _subscribe(self, site: str, copies: lrq.CopiedTables) -> None:
        plain = copies.process_updates_in_log_entry_sync

        def noted(session: Session, source_id: str, entries: Sequence[Any]) -> bool:
            made = [json.loads(entry.opaque_payload)["row"]["site"] for entry in entries]
            self.applied[site] += [(source_id, each) for each in made]
            return plain(session, source_id, entries)

        copies.process_updates_in_log_entry_sync = noted  # type: ignore[method-assign]
        self._stack.enter_context(closing(lrq.subscribe(self.world.site(site), copies, poll_interval=0.05)))

    def edit(self, site: str) -> None:
        """Add an order, and change or remove some others, in one transaction; after a deadlock, up to ten times."""
        for left in reversed(range(10)):
            try:
                self._edit(site)
            except OperationalError as error:
                if not left or not isinstance(error.orig, DeadlockDetected):
                    raise
            else:
                return

    def _edit(self, site: str) -> None:
        with Session(self.world.site(site)) as session, session.begin():
            session.execute(INSERT, {"id": f"{site}-{self.chance.getrandbits(40)}"})
            for each in session.execute(text("SELECT id FROM orders ORDER BY id")).scalars().all():
                if self.chance.random() < 0.5:
                    session.execute(RENAME, {"id": each, "name": f"{site}-{self.chance.random()}"})
                elif self.chance.random() < 0.1:
                    session.execute(REMOVE, {"id": each})

    def edit_all(self, times: int) -> None:
        for _ in range(times):
            for site in self.peers:
                self.edit(site)

    def rows(self, site: str) -> list[tuple[Any, ...]]:
        found = self.world.execute(site, "SELECT id, name, deleted, version, site FROM orders ORDER BY id")
        return [tuple(row) for row in found]

    def agree(self) -> None:
        """Wait until all sites have the same rows."""
        first, *others = self.peers
        eventually(lambda: all(self.rows(site) == self.rows(first) for site in others))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def meet(offices: Offices) -> None:
    """Let Paris and Tokyo begin with rows, send snapshots both ways amid changes, and agree."""
    offices.edit_all(2)
    offices.open()
    offices.edit_all(10)
    offices.world.request_snapshots("paris", "tokyo", client="orders")
    offices.world.request_snapshots("tokyo", "paris", client="orders")
    offices.edit_all(10)
    offices.agree()


def test_two_sites_agree_and_each_sends_only_its_own_changes(
    world: World, stack: ExitStack, chance: random.Random
) -> None:
    offices = Offices(world, stack, chance, {"paris": ["tokyo"], "tokyo": ["paris"]})
    meet(offices)
    assert set(offices.applied["tokyo"]) == {("paris", "paris")}
    assert set(offices.applied["paris"]) == {("tokyo", "tokyo")}


@POSTGRESQL
def test_a_site_on_postgresql_and_one_on_sqlite_agree(
    new_site: NewSite, tmp_path: Path, stack: ExitStack, chance: random.Random
) -> None:
    def site(name: str) -> Engine:
        if name == "paris":
            return new_site(name)
        engine = lrq.create_engine(f"sqlite:///{tmp_path / name}.db")
        stack.callback(engine.dispose)
        lrq.initialize(engine, site_id=name)
        return engine

    meet(Offices(World(site, stack), stack, chance, {"paris": ["tokyo"], "tokyo": ["paris"]}))


@POSTGRESQL
def test_a_hub_sends_the_rows_of_each_branch_to_the_other_branches_only(
    world: World, stack: ExitStack, chance: random.Random
) -> None:
    offices = Offices(world, stack, chance, {"hub": ["north", "south"], "north": ["hub"], "south": ["hub"]})
    offices.open()
    offices.edit_all(10)
    offices.agree()
    assert set(offices.applied["hub"]) == {("north", "north"), ("south", "south")}
    assert set(offices.applied["north"]) == {("hub", "hub"), ("hub", "south")}
    assert set(offices.applied["south"]) == {("hub", "hub"), ("hub", "north")}


def test_three_sites_that_send_to_all_others_forward_nothing(
    world: World, stack: ExitStack, chance: random.Random
) -> None:
    sites = ["north", "south", "west"]
    peers = {site: [each for each in sites if each != site] for site in sites}
    offices = Offices(world, stack, chance, peers, origin="none")
    offices.open()
    offices.edit_all(10)
    offices.agree()
    assert {source for applied in offices.applied.values() for source, made in applied if made != source} == set()
    assert all(len(set(applied)) == 2 for applied in offices.applied.values())
