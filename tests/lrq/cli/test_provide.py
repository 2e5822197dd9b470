"""`lrq provide`, in real processes that are stopped and killed for real."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from lrq.cli.place import provider_pool
from queues import send_snapshot
from queues.database.transactions import writing
from queues.names import ClientName
from queues.send_snapshot import SnapshotState
from tests.absent_database import absent
from tests.lr_client.snapshot.providing import by_id, payloads_of, ready, request
from tests.lrq.cli.command import ended, lrq_process, spawn
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.long]

APPLICATION = "tests.lrq.cli.provider_application"
JSON = [b'{"id":1,"name":"Lima"}', b'{"id":2,"name":"Oslo"}']

#: Starts `lrq provide` and returns the process; its log is the file `log` of its folder.
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def app(site: Engine) -> Engine:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE airports (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(text("INSERT INTO airports VALUES (1, 'Lima'), (2, 'Oslo')"))
    return site


def at(engine: Engine) -> tuple[str, ...]:
    return "--client", "policy", "--database", engine.url.render_as_string(hide_password=False)


@pytest.fixture
def start(app: Engine, elsewhere: Path) -> Iterator[Start]:
    """Give a function that starts a provider and waits for its first line; all are killed at the end."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(name: str, folder: Path = elsewhere, options: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        folder.mkdir(exist_ok=True)
        with (folder / "log").open("wb") as log:
            command = ("provide", f"{APPLICATION}:{name}", *at(app), *options)
            made.append(spawn(*command, stdout=subprocess.PIPE, stderr=log, cwd=folder))
        line = made[-1].stdout.readline().decode()
        assert line == f"paris (pid {made[-1].pid}) provides snapshots of policy\n", (folder / "log").read_text()
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def once(engine: Engine, name: str, *options: str) -> "subprocess.CompletedProcess[bytes]":
    return lrq_process("provide", f"{APPLICATION}:{name}", "--once", "--log-level", "error", *at(engine), *options)


@pytest.mark.parametrize(("connections", "builds"), [(3, 1), (4, 1), (5, 2), (20, 2)])
def test_the_pool_of_a_provider_has_a_reader_for_each_build_and_one_connection_more(connections: int, builds: int):
    pool, at_once = provider_pool(connections)
    pooled = pool["pool_size"] + pool["max_overflow"]
    assert at_once == builds
    assert pooled + builds == connections, "the cuts are outside the pool"
    assert pooled >= builds + 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("most", [3, 5])
def test_a_provider_builds_for_several_sites_within_its_connections(app: Engine, start: Start, most: int):
    ids = [request(app, site)[0] for site in ("lima", "oslo", "tokyo", "paris")]
    start("each", options=("--max-connections", str(most)))
    own = text(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lrq provider' AND datname = current_database()"
    )
    highest = 0

    def is_done() -> bool:
        nonlocal highest
        with app.connect() as connection:
            highest = max(highest, int(connection.execute(own).scalar_one()))
        return all(by_id(app, sync_id).state is SnapshotState.READY for sync_id in ids)

    eventually(is_done)
    assert 1 <= highest <= most
    assert payloads_of(app, ids[0]) == [b"Lima for lima", b"Oslo for lima"]


def test_fewer_than_three_connections_are_refused(app: Engine):
    done = once(app, "airports", "--max-connections", "2")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--max-connections" in done.stderr


def test_requests_are_served_until_a_signal(app: Engine, start: Start, elsewhere: Path):
    process = start("airports")
    (sync_id,) = request(app, "tokyo")
    ready(app, sync_id)
    assert payloads_of(app, sync_id) == JSON
    process.terminate()
    assert ended(process) == 0
    assert "Traceback" not in (elsewhere / "log").read_text()


def test_a_signal_cancels_the_snapshot_and_the_next_provider_builds_it(app: Engine, start: Start, elsewhere: Path):
    (sync_id,) = request(app, "tokyo")
    process = start("held")
    eventually((elsewhere / "inside").exists)
    process.send_signal(signal.SIGINT)
    assert ended(process) == 0
    assert by_id(app, sync_id).state is SnapshotState.REQUESTED
    assert once(app, "function").stdout == b"policy: 1 snapshot provided\n"
    assert payloads_of(app, sync_id) == [b"Lima", b"Oslo"]


def test_a_killed_provider_publishes_nothing_and_another_takes_over(app: Engine, start: Start, elsewhere: Path):
    (sync_id,) = request(app, "tokyo")
    first = start("held", elsewhere / "1")
    eventually((elsewhere / "1" / "inside").exists)
    start("airports", elsewhere / "2")
    log = elsewhere / "2" / "log"
    eventually(lambda: "standing by" in log.read_text())
    first.kill()
    ready(app, sync_id, timeout=60)
    assert payloads_of(app, sync_id) == JSON
    eventually(lambda: "owner" in log.read_text())


def test_once_serves_the_requests_of_now_and_ends(app: Engine):
    done = once(app, "airports")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"policy: 0 snapshots provided\n", b"")
    ids = request(app, "tokyo", "lima")
    done = once(app, "factory", "--json")
    assert done.stderr == b""
    assert json.loads(done.stdout) == {"site": "paris", "client": "policy", "provided": 2}
    assert [payloads_of(app, by_id(app, sync_id).stored_under) for sync_id in ids] == [JSON, JSON]


def test_once_ends_with_code_3_after_three_failed_attempts(app: Engine):
    request(app, "tokyo")
    done = once(app, "broken")
    assert (done.returncode, done.stdout) == (3, b"policy: 0 snapshots provided\n")
    assert done.stderr.startswith(b"lrq: the snapshot for tokyo has failed (query 1 has failed (")
    assert len(done.stderr.splitlines()) == 1


def test_once_ends_with_code_3_after_the_timeout(app: Engine):
    with writing(app) as connection:
        send_snapshot.request(connection, ClientName("policy"), None, "all")
    done = once(app, "airports", "--timeout", "0.2")
    assert done.returncode == 3
    assert done.stderr == (
        b"lrq: not provided after 0.2 s: the request for every site waits for the site's server, run `lrq serve`\n"
    )


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_once_goes_on_after_the_database_was_away_for_a_moment(app: Engine, elsewhere: Path):
    (sync_id,) = request(app, "tokyo")
    command = ("provide", f"{APPLICATION}:held", "--once", *at(app))
    process = spawn(*command, cwd=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually((elsewhere / "inside").exists)
    with absent(app), pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    (elsewhere / "go").touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"policy: 1 snapshot provided\n"), err.decode()
    assert payloads_of(app, sync_id) == [b"Lima", b"Oslo"]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_log_tells_each_sentence_of_an_outage_once_and_the_end(app: Engine, start: Start, elsewhere: Path):
    process, log = start("airports"), elsewhere / "log"
    with absent(app), pytest.raises(subprocess.TimeoutExpired):
        process.wait(3.5)
    again = re.compile(r"snapshot transmitter works again .*client=policy failures=(\d+) seconds=([\d.]+)")
    eventually(lambda: again.search(log.read_text()))
    told = re.findall(r"snapshot transmitter cannot work .*?(error=.*)", log.read_text())
    assert len(told) == len(set(told)), log.read_text()
    assert int(again.search(log.read_text())[1]) >= len(told) > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [("asynchronous", b"asynchronous is `async def`"), ("airport", b"did you mean 'airports'?"), ("Path", b"a class")],
)
def test_a_wrong_provider_is_a_one_line_error(app: Engine, name: str, words: bytes):
    done = once(app, name)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)
    assert words in done.stderr


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_rows_of_followed_tables_need_no_provider_of_the_application(app: Engine):
    with app.begin() as connection:
        connection.execute(text("SELECT lrq_follow('airports', 'policy', ARRAY['tokyo'])"))
    (sync_id,) = request(app, "tokyo")
    done = lrq_process("provide", "--followed", "--once", "--log-level", "error", *at(app))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"policy: 1 snapshot provided\n", b"")
    assert [json.loads(each)["row"]["name"] for each in payloads_of(app, sync_id)] == ["Lima", "Oslo"]


@pytest.mark.parametrize("words", [(), (f"{APPLICATION}:airports", "--followed")])
def test_one_provider_is_named(app: Engine, words: tuple[str, ...]):
    done = lrq_process("provide", *words, *at(app))
    assert (done.returncode, done.stderr) == (2, b"lrq: name one provider: write MODULE:PROVIDER, or --followed\n")
