"""The command line as a function, and a site to run commands on."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, make_url, text

from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty folder without LRQ_ variables; give the folder."""
    folder = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("LRQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "140")
    return folder


@pytest.fixture
def lrq(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give a function that runs `lrq` in this process."""
    return Command(capsys)


@pytest.fixture
def ascii_database(postgres_server: str, postgres_admin: Connection) -> Iterator[str]:
    """Give the URL of an empty database with the encoding SQL_ASCII."""
    with _encoded("SQL_ASCII", postgres_server, postgres_admin) as url:
        yield url


@pytest.fixture
def latin_database(postgres_server: str, postgres_admin: Connection) -> Iterator[str]:
    """Give the URL of an empty database with the encoding LATIN1."""
    with _encoded("LATIN1", postgres_server, postgres_admin) as url:
        yield url


@contextmanager
def _encoded(encoding: str, postgres_server: str, postgres_admin: Connection) -> Iterator[str]:
    url = make_url(postgres_server).set(database=f"encoded_{uuid.uuid4().hex}")
    create = f"CREATE DATABASE {url.database} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    postgres_admin.execute(text(create))
    yield url.render_as_string(hide_password=False)
    postgres_admin.execute(text(f"DROP DATABASE {url.database} WITH (FORCE)"))


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give site `paris` as a source without a server."""
    return SourceSite(site)
