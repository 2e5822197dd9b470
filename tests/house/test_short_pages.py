"""Pages with short examples: their settings are accepted, their code runs, and each command of any page exists."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session
from typer.main import get_command

import lrq
import queues
from lr_client import (
    FollowedTables,
    LRMessageWithDestinations,
    RoutingQueueListener,
    RoutingQueueSenderClient,
    listener,
)
from lr_server import Settings
from lrq.cli.main import app
from lrq.testing import transmitted
from queues.database import dialects
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.conftest import NewSite
from tests.house.page_blocks import take
from tests.house.typed_lines import words_of
from tests.lrq.cli.command import Command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
#: The blocks of settings, each a part of a file.
SETTINGS = {page: take(__name__, f"docs/{page}.md", "toml") for page in ("ingest", "servers")}
HEADERS = take(__name__, "docs/headers.md", "python")
LINKS = take(__name__, "docs/links.md", "python")
CONSOLE = take(__name__, "docs/console.md", "python")
SQL = take(__name__, "docs/sql.md", "sql")
#: The payload of an entry of a followed table.
(FOLLOWED,) = take(__name__, "docs/sql.md", "json")
(FOLLOWING,) = take(__name__, "docs/sql.md", "sh")
#: The provider of the rows of followed tables.
PROVIDER, LISTENER = take(__name__, "docs/sql.md", "python")
SQLITE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def commands(page: Path) -> Iterator[str]:
    """Yield each line of a block that calls `lrq`, up to the first sign of the shell."""
    for block in re.findall(r"^```(?:sh|console)?\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^(?:\$ )?(lrq .*)$", block.replace("\\\n", " "), re.MULTILINE):
            yield re.split(r" (?:[#&|;]|[0-9]?>|<(?= )|&&)", line)[0]


def unknown(command: str) -> str:
    """Return the first name or option of a command that `lrq` does not have; empty if it has all."""
    found: Any = get_command(app)
    options = {"--debug"}
    words = shlex.split(command)[1:]
    while words and hasattr(found, "commands") and not words[0].startswith("-"):
        name, *words = words
        if name not in found.commands:
            return name
        found = found.commands[name]
    options |= {option for each in found.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((each for each in given if each not in options), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_a_page_exists_with_its_options(page: Path):
    assert [(command, name) for command in commands(page) if (name := unknown(command))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_installs_a_checkout_because_no_index_has_lrq(page: Path):
    """A reader's index may have another package of this name."""
    assert re.findall(r"^(?:\$ )?pip install .*\blrq\b.*", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("command", ["lrq nothing", "lrq peer nothing", "lrq status --nothing", "lrq park list -x"])
def test_a_command_that_does_not_exist_is_found(command: str):
    assert unknown(command) == command.split()[-1]
    assert not unknown("lrq park list --json --config paris.toml")


@pytest.mark.parametrize("page", SETTINGS)
def test_the_settings_of_a_page_are_accepted(page: str, tmp_path: Path):
    needed = {"site_id": "paris", "database_url": "sqlite:///paris.db"}
    needed |= {name: f"{name}.pem" for name in ("tls_certificate", "tls_key", "tls_authority")}
    for block in SETTINGS[page]:
        file = tmp_path / "lrq.toml"
        # Blocks that stand for a part of a file lack the settings that every file has.
        missing = [f'{name} = "{value}"' for name, value in needed.items() if f"{name} =" not in block]
        file.write_text("\n".join([*missing, block]))
        assert Settings.load(file).site_id == "paris"


@SQLITE
def test_the_headers_of_the_page_are_transmitted_and_read(site: Engine):
    sending, reading = HEADERS
    client = RoutingQueueSenderClient("policy")
    given = {"client": client, "payload": b"x", "LRMessageWithDestinations": LRMessageWithDestinations}
    with Session(site) as session, session.begin():
        exec(sending, {**given, "session": session})
        assert [dict(each.headers) for each in transmitted(session)] == [
            {"content-type": "application/json"},
            {"unit": "degree"},
        ]
    read: dict[str, Any] = {"__name__": "page"}
    exec(f"{reading}\n", read)
    entry = RoutingTableEntryMsg(headers={"content-type": "application/json"}, partition_key="a")
    assert read["process_updates_in_log_entry_sync"](None, None, "paris", [entry]) is True


def test_the_listeners_of_the_page_of_links_hear_of_the_end():
    (block,) = LINKS

    @listener("policy")
    def apply(session: Any, source_id: str, entries: Any) -> None:
        """Apply nothing."""

    made: dict[str, Any] = {"RoutingQueueListener": RoutingQueueListener, "apply": apply}
    exec(block, made)
    assert made["Apply"].on_stream_end is not RoutingQueueListener.on_stream_end
    assert "close" in made


@SQLITE
def test_the_application_of_the_page_of_the_console_admits_persons_only(
    new_site: NewSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    queues.initialize(lrq.create_engine("sqlite:///paris.db"), site_id="paris")
    made: dict[str, Any] = {}
    (block,) = CONSOLE
    exec(block, made)
    inner = made["application"].routes[0].app
    try:
        assert get(made["application"], {}) == 403
        assert get(made["application"], {"x-user": "ann"}) == 200
    finally:
        inner.state.console.stop()


def get(application: Any, headers: dict[str, str]) -> int:
    """Return the status of the map."""
    import asyncio

    async def ask() -> int:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://paris.example") as client:
            return (await client.get("/lrq/", headers=headers)).status_code

    return asyncio.run(ask())


def statements(block: str) -> list[str]:
    """Return the statements of a block of SQL; a trigger is one."""
    without = re.sub(r"--.*$", "", block, flags=re.MULTILINE)
    if "CREATE TRIGGER" in without:
        return [without]
    return [each for each in without.split(";") if each.strip()]


@SQLITE
def test_the_statements_for_sqlite_run(site: Engine):
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE outgoing (id INTEGER PRIMARY KEY, payload BLOB, sites TEXT)")
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO outgoing VALUES (1, x'01', 'tokyo')")
    ran = run(site, [block for block in SQL if "lrq_transmit(" not in block and "lrq_follow" not in block])
    assert ran >= 8
    with Session(site) as session, session.begin():
        session.execute(text("INSERT INTO orders VALUES (7)"))
        assert [each.client for each in transmitted(session)] == ["orders"]


@POSTGRESQL
def test_the_statements_for_postgresql_run(site: Engine):
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE outgoing (id integer PRIMARY KEY, payload bytea, destinations text[])")
        connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, branch text)")
    assert run(site, [block for block in SQL if "INTO lrq_transmit" not in block]) >= 9


@POSTGRESQL
def test_the_commands_follow_a_table(site: Engine, capsys: pytest.CaptureFixture[str]):
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, branch text)")
    database = site.url.render_as_string(hide_password=False)
    done = [Command(capsys)(*words_of(line), "--database", database) for line in FOLLOWING.splitlines()]
    assert [each.code for each in done] == [0, 0, 0]
    with site.connect() as connection:
        assert [each.client for each in dialects.of(connection).followed_tables(connection)] == ["audit"]


@POSTGRESQL
def test_an_entry_of_a_followed_table_has_the_payload_of_the_page(site: Engine):
    (block,) = [block for block in SQL if "lrq_follow" in block]
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, name text)")
        connection.exec_driver_sql(statements(block)[0])
        connection.exec_driver_sql("INSERT INTO orders VALUES (1, 'te')")
    with Session(site) as session, session.begin():
        session.execute(text("UPDATE orders SET name = 'tea'"))
        assert [json.loads(each.payload) for each in transmitted(session)] == [json.loads(FOLLOWED)]


def test_the_provider_of_followed_tables_is_that_of_the_page():
    names: dict[str, object] = {}
    exec(PROVIDER, names)
    assert isinstance(names["orders"], FollowedTables)


@POSTGRESQL
def test_the_listener_of_the_page_copies_the_rows_of_a_followed_table(site: Engine):
    names: dict[str, Any] = {}
    exec(LISTENER, names)
    update = FOLLOWED.encode()
    insert = json.dumps({"table": "public.orders", "op": "insert", "row": json.loads(FOLLOWED)["old"]}).encode()
    delete = json.dumps({"table": "public.orders", "op": "delete", "old": json.loads(FOLLOWED)["row"]}).encode()

    def after(payload: bytes) -> list[tuple[Any, ...]]:
        with Session(site) as session, session.begin():
            entry = RoutingTableEntryMsg(opaque_payload=payload)
            names["apply"].process_updates_in_log_entry_sync(session, "paris", [entry])
            return [tuple(row) for row in session.execute(text("SELECT id, name FROM orders"))]

    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, name text)")
    assert [after(payload) for payload in (insert, update, delete, insert)] == [
        [(1, "te")], [(1, "tea")], [], [(1, "te")],
    ]  # fmt: skip
    with Session(site) as session, session.begin():
        names["apply"].on_snapshot_sync_start(session, "paris")
        assert session.execute(text("SELECT count(*) FROM orders")).scalar() == 0


def run(site: Engine, chosen: list[str]) -> int:
    """Run the statements of blocks, one transaction a block; return their number."""
    number = 0
    for block in chosen:
        with site.begin() as connection:
            for statement in statements(block):
                connection.exec_driver_sql(statement)
                number += 1
    return number
