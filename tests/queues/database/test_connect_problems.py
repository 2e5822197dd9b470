"""Each reason why a database cannot be opened has a sentence of its own."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, make_url

import queues
from queues.database import schema
from queues.database.connect_problems import problem
from queues.database.transactions import reading
from queues.descriptors import NO_DESCRIPTOR
from queues.errors import StoreUnavailableError
from tests.descriptors import no_free_descriptor

_HOST = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (_HOST + 'FATAL:  database "app" does not exist', 'there is no database "app" on the server: create it'),
        (_HOST + 'FATAL:  role "lrq" does not exist', 'the server knows no role "lrq": create it'),
        (_HOST + 'FATAL:  role "lrq" is not permitted to log in', 'the role "lrq" may not log in: ALTER ROLE'),
        (_HOST + 'FATAL:  password authentication failed for user "lrq"', 'refuses the password of "lrq": correct'),
        (_HOST + "fe_sendauth: no password supplied", "the server asks for a password: write one"),
        (
            _HOST + 'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "lrq", database "app", no encryption',
            'admits no connection of "lrq" from "10.0.0.9": add a line',
        ),
        (
            _HOST + 'FATAL:  pg_hba.conf rejects connection for host "10.0.0.9", user "lrq", database "app", SSL',
            'rejects each connection of "lrq" from "10.0.0.9": change that line of its pg_hba.conf',
        ),
        (_HOST + 'FATAL:  Peer authentication failed for user "lrq"', 'that one is not "lrq": run as that user'),
        (_HOST + 'FATAL:  too many connections for role "lrq"', 'ALTER ROLE "lrq" CONNECTION LIMIT -1, or lower'),
        (_HOST + 'FATAL:  too many connections for database "app"', 'ALTER DATABASE "app" CONNECTION LIMIT -1'),
        (_HOST + "FATAL:  sorry, too many clients already", "raise its max_connections, or lower that of the site"),
        (
            _HOST + "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "raise its max_connections, or lower that of the site",
        ),
        (_HOST + 'FATAL:  permission denied for database "app"', 'GRANT CONNECT ON DATABASE "app"'),
        (
            _HOST + 'FATAL:  database "app" is not currently accepting connections',
            'ALTER DATABASE "app" ALLOW_CONNECTIONS true',
        ),
        (_HOST + "Connection refused", "no PostgreSQL listens at 10.0.0.7 port 5432: start the server"),
        (
            'connection is bad: connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory',
            "no PostgreSQL listens at the socket /run/.s.PGSQL.5432: start the server",
        ),
        ("connection failed: could not create socket: Too many open files", "no free file descriptor: raise its limit"),
        ("/a/paris.db has 2 names, and SQLite keeps a -wal for each: remove them", "/a/paris.db has 2 names"),
        (
            "/a/paris.db is mounted without its folder, so: mount the folder",
            "/a/paris.db is mounted without its folder",
        ),
        ("failed to resolve host 'db.paris': [Errno -2] Name or service not known", "the host 'db.paris' is unknown"),
    ],
)
def test_a_failed_connection_has_a_sentence_of_its_own(words: str, said: str) -> None:
    assert said in (problem(words) or "")


@pytest.mark.parametrize("words", ["server closed the connection unexpectedly", "database is locked", ""])
def test_other_errors_have_no_sentence_here(words: str) -> None:
    assert problem(words, make_url("sqlite:///x.db")) is None


def failure_of(url: object) -> str:
    engine = queues.create_engine(url)  # type: ignore[arg-type]
    try:
        with pytest.raises(StoreUnavailableError) as raised:
            queues.initialize(engine, site_id="paris")
        with pytest.raises(StoreUnavailableError, match=str(raised.value).partition(":")[0]), reading(engine):
            pass
    finally:
        engine.dispose()
    return str(raised.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    said = failure_of(f"sqlite:///{tmp_path}/missing/paris.db")
    assert said.startswith(f"the folder {tmp_path}/missing of the database paris.db does not exist: create it")


@pytest.mark.parametrize("words", ["unable to open database file", "attempt to write a readonly database"])
@pytest.mark.parametrize("name", ["paris.db", "paris.db-wal", "paris.db-shm", "."])
def test_the_file_or_folder_that_this_user_cannot_write_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str
) -> None:
    for each in ("paris.db", "paris.db-wal", "paris.db-shm"):
        (tmp_path / each).touch()
    # Root may write everywhere, so the rights of the system cannot be used here.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / name)
    said = problem(words, make_url(f"sqlite:///{tmp_path}/paris.db")) or ""
    assert said.startswith(f"{tmp_path / name} cannot be written")


def test_a_disk_that_is_mounted_read_only_is_told_so(tmp_path: Path) -> None:
    def mount(options: str) -> int:
        return subprocess.run(["mount", *options.split(), str(tmp_path)], capture_output=True, check=False).returncode

    if mount("-t tmpfs -o size=8m tmpfs"):
        pytest.skip("this user may not mount a disk")
    try:
        (tmp_path / "paris.db").touch()
        assert mount("-o remount,ro") == 0
        said = failure_of(f"sqlite:///{tmp_path}/paris.db")
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
    assert said.startswith(f"the disk of {tmp_path}/paris.db is mounted read-only: mount the disk for writing")


def test_a_process_without_a_free_descriptor_is_told_so(tmp_path: Path) -> None:
    with no_free_descriptor():
        said = failure_of(f"sqlite:///{tmp_path}/paris.db")
    assert said == NO_DESCRIPTOR


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    assert failure_of(f"sqlite:///{tmp_path}").startswith(f"{tmp_path} is a folder: name a file")


def test_a_real_server_without_the_role_the_database_or_the_port_says_so(site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no server")
    assert failure_of(site.url.set(database="nowhere")).startswith('there is no database "nowhere" on the server')
    assert failure_of(site.url.set(username="stranger")).startswith('the server knows no role "stranger"')
    there = {"host": "127.0.0.1", "port": 1, "query": {}}
    assert failure_of(site.url.set(**there)).startswith("no PostgreSQL listens at 127.0.0.1 port 1: start")  # type: ignore[arg-type]
    assert failure_of(site.url.set(**there | {"host": "no.invalid"})).startswith("the host 'no.invalid' is unknown")  # type: ignore[arg-type]


def test_a_real_server_at_its_limit_says_so(site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no limit")
    role = f"limited_{os.getpid()}"
    with site.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    try:
        assert failure_of(site.url.set(username=role)).startswith(
            f'the role "{role}" has as many connections as it may'
        )
    finally:
        with site.begin() as connection:
            connection.exec_driver_sql(f"DROP ROLE {role}")


def test_a_look_at_the_tables_names_the_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        # SQLite makes a -shm for the first reader of a file in WAL mode.
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorname = "SQLITE_READONLY"
        raise error

    engine = create_engine(f"sqlite:///{tmp_path / 'paris.db'}")
    with engine.connect() as connection:
        event.listen(engine, "do_execute", refuse)
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(StoreUnavailableError, match=r"cannot be written: correct its permissions"):
            schema.require(connection)
    engine.dispose()
