"""`lrq work`, in real processes that are stopped and killed for real."""

import json
import os
import random
import re
import secrets
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from lrq.cli.place import worker_pool
from queues.receive.parked import parked, retry_parked
from tests.absent_database import absent
from tests.conftest import NewSite
from tests.lr_client.subscriber.applying import applied, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.command import ended, lrq_process, spawn
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.long]

APPLICATION = "tests.lrq.cli.worker_application"
APPLY = f"{APPLICATION}:apply"

#: Starts `lrq work` and returns the process; its log is the file `log` of its folder.
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def lima(new_site: NewSite) -> Engine:
    engine = new_site("lima")
    applied.metadata.create_all(engine)
    return engine


@pytest.fixture
def tokyo(lima: Engine) -> Arrivals:
    return Arrivals(lima)


def at(engine: Engine) -> tuple[str, str]:
    return "--database", engine.url.render_as_string(hide_password=False)


@pytest.fixture
def start(lima: Engine, elsewhere: Path) -> Iterator[Start]:
    """Give a function that starts a worker and waits for its first line; all workers are killed at the end."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*listeners: str, folder: Path = elsewhere) -> "subprocess.Popen[bytes]":
        folder.mkdir(exist_ok=True)
        with (folder / "log").open("wb") as log:
            command = ("work", *(listeners or (APPLY,)), *at(lima))
            made.append(spawn(*command, stdout=subprocess.PIPE, stderr=log, cwd=folder))
        line = made[-1].stdout.readline()
        assert line.startswith((b"lima (pid", b"{")), (folder / "log").read_text()
        made[-1].first_line = line.decode()
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def once(engine: Engine, listener: str = APPLY, *options: str) -> "subprocess.CompletedProcess[bytes]":
    return lrq_process("work", listener, "--once", "--log-level", "error", *at(engine), *options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_call_finish(
    lima: Engine, tokyo: Arrivals, start: Start, elsewhere: Path, number: int
):
    process = start()
    tokyo.tick([b"hold"])
    eventually((elsewhere / "inside").exists)
    process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    (elsewhere / "go").touch()
    assert ended(process) == 0
    assert (story(lima), tokyo.left) == (["hold"], 0)
    assert "Traceback" not in (elsewhere / "log").read_text()


def test_a_second_signal_ends_the_process_at_once(lima: Engine, tokyo: Arrivals, start: Start, elsewhere: Path):
    process = start()
    tokyo.tick([b"hold"])
    eventually((elsewhere / "inside").exists)
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)

    def is_ended() -> bool:
        # A process that stood still meanwhile has got both signals as one.
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return process.poll() is not None

    eventually(is_ended)
    assert process.returncode == -signal.SIGTERM
    assert (story(lima), tokyo.left) == ([], 1)


def test_a_worker_killed_at_any_moment_loses_and_doubles_nothing(lima: Engine, tokyo: Arrivals, start: Start):
    seed = int(os.environ.get("LRQ_SEED", secrets.randbits(32)))
    print(f"LRQ_SEED={seed}")
    tokyo.snapshot("s1", payloads("r", 20))
    for n in range(40):
        tokyo.tick(payloads(f"t{n}-", 3))
    whole = [*texts("r", 20), *[text for n in range(40) for text in texts(f"t{n}-", 3)]]
    for moment in sorted(random.Random(seed).sample(range(len(whole)), 3)):
        process = start()
        eventually(lambda moment=moment: len(story(lima)) >= moment, interval=0.001)
        process.kill()
        process.wait()
    assert once(lima).returncode == 0
    assert story(lima) == whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_second_worker_stands_by_and_takes_over(
    lima: Engine, tokyo: Arrivals, start: Start, elsewhere: Path, number: int
):
    first = start(folder=elsewhere / "1")
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    start(folder=elsewhere / "2")
    log = elsewhere / "2" / "log"
    eventually(lambda: "standing by" in log.read_text())
    first.send_signal(number)
    first.wait(30)
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert "owned as generation 2" in eventually(lambda: "owner" in log.read_text() and log.read_text())
    assert story(lima) == ["e1", "e2"]


def test_several_listeners_work_in_one_process(lima: Engine, tokyo: Arrivals, start: Start):
    other = Arrivals(lima, client="audit", source="paris")
    process = start(APPLY, f"{APPLICATION}:audit")
    assert process.first_line == f"lima (pid {process.pid}) listens to policy, audit\n"
    tokyo.tick([b"e1"])
    other.tick([b"a1"])
    eventually(lambda: (story(lima), story(lima, "paris")) == (["e1"], ["a1"]))
    process.terminate()
    assert ended(process) == 0


def test_metrics_count_entries_failures_and_the_time_of_batches(lima: Engine, tokyo: Arrivals, start: Start):
    process = start(f"{APPLICATION}:park", "--metrics", "127.0.0.1:0", "--json")
    facts = json.loads(process.first_line)
    assert (facts["pid"], facts["clients"]) == (process.pid, ["policy"])
    tokyo.tick(payloads("e", 3))
    tokyo.tick([b"refuse"])
    eventually(lambda: tokyo.left == 0)

    def metrics() -> dict[str, float]:
        with urllib.request.urlopen(f"http://{facts['metrics']}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    queue = '{client="policy",source="tokyo"}'
    assert metrics()[f"lrq_worker_entries_total{queue}"] == 3
    eventually(lambda: metrics()[f"lrq_worker_failures_total{queue}"] >= 2)
    assert metrics()[f"lrq_worker_batch_seconds_count{queue}"] >= 1
    assert metrics()['lrq_worker_active{client="policy"}'] == 1
    assert metrics()[f"lrq_worker_commit_to_applied_seconds_count{queue}"] == 1
    assert metrics()[f"lrq_worker_commit_to_applied_seconds_sum{queue}"] > 3600, "these entries are old"


def test_once_applies_the_present_entries_and_ends(lima: Engine, tokyo: Arrivals):
    done = once(lima)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"policy: 0 entries applied\n", b"")
    tokyo.snapshot("s1", payloads("r", 5))
    tokyo.tick(payloads("e", 4), [b"last"])
    tokyo.part_of_a_tick([b"later"])
    done = once(lima, f"{APPLICATION}:factory", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"site": "lima", "applied": {"policy": 10}})
    assert story(lima) == [*texts("r", 5), *texts("e", 4), "last"]
    tokyo.complete_the_tick()
    assert once(lima, f"{APPLICATION}:instance").stdout == b"policy: 1 entry applied\n"


def test_once_ends_with_code_3_when_an_entry_is_refused(lima: Engine, tokyo: Arrivals):
    tokyo.tick([b"e1"], [b"refuse"], [b"e2"])
    done = once(lima)
    words = (
        rb"lrq: policy from tokyo: the entry at 2 was refused \d+ times "
        rb"\(ValueError \(worker_application\.py, line \d+, in _apply\)\)\n"
    )
    assert done.returncode == 3
    assert re.fullmatch(words, done.stderr)
    assert story(lima) == ["e1"]
    assert once(lima).returncode == 3


def test_once_ends_with_code_3_when_an_entry_is_parked(lima: Engine, tokyo: Arrivals):
    tokyo.tick([b"e1"], [b"refuse"], [b"e2"])
    done = once(lima, f"{APPLICATION}:park")
    assert (done.returncode, story(lima)) == (3, ["e1", "e2"])
    assert done.stderr == b"lrq: 1 transaction was refused and parked: see `lrq park list`\n"
    assert once(lima, f"{APPLICATION}:park").returncode == 0


def test_once_ends_with_code_3_after_the_timeout(lima: Engine, tokyo: Arrivals, start: Start, elsewhere: Path):
    start()
    tokyo.tick([b"hold"])
    eventually((elsewhere / "inside").exists)
    done = once(lima, APPLY, "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (3, b"policy: 0 entries applied\n")
    assert done.stderr.startswith(b"lrq: not applied after 0.5 s: policy from tokyo is applied up to 0 of 1")


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_once_goes_on_after_the_database_was_away_for_a_moment(lima: Engine, tokyo: Arrivals, elsewhere: Path):
    tokyo.tick([b"e1"], [b"hold"], [b"e2"])
    process = spawn("work", APPLY, "--once", *at(lima), cwd=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually((elsewhere / "inside").exists)
    with absent(lima):
        (elsewhere / "go").touch()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"policy: 3 entries applied\n"), err.decode()
    assert story(lima) == ["e1", "hold", "e2"]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_log_tells_each_sentence_of_an_outage_once_and_the_end(
    lima: Engine, tokyo: Arrivals, start: Start, elsewhere: Path
):
    process, log = start(), elsewhere / "log"
    tokyo.tick([b"e1"])
    eventually(lambda: story(lima) == ["e1"])
    with absent(lima), pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    tokyo.tick([b"e2"])
    eventually(lambda: story(lima) == ["e1", "e2"])
    again = re.compile(r"delivery succeeds again .*client=policy failures=(\d+) seconds=([\d.]+)")
    eventually(lambda: again.search(log.read_text()))
    failures, seconds = again.findall(log.read_text())[-1]
    told = re.findall(r"delivery failed .*?(error=.*)", log.read_text())
    # The worker polls twenty times a second, and a server that ends its connections has more than one sentence.
    assert int(failures) > len(told), log.read_text()
    assert 0 < float(seconds) < 60
    assert len(told) == len(set(told)) or len(again.findall(log.read_text())) > 1, log.read_text()


@pytest.mark.parametrize("options", [(), ("--once",)])
def test_a_database_out_of_reach_ends_a_run_which_may_be_repeated(options: tuple[str, ...]):
    done = lrq_process("work", APPLY, *options, "--database", "postgresql+psycopg://lrq@127.0.0.1:1/lima")
    assert done.returncode == 1
    assert done.stderr.endswith(b"; nothing is lost: run the command again\n") is bool(options), done.stderr


def test_a_timeout_without_once_and_a_wrong_listener_are_one_line_errors(lima: Engine):
    done = lrq_process("work", APPLY, "--timeout", "3", *at(lima))
    assert (done.returncode, done.stderr[:31]) == (2, b"lrq: --timeout belongs to --onc")
    for name, words in (("aply", b"did you mean 'apply'?"), ("plain", b'decorate it with @lrq.listener("CLIENT")')):
        done = lrq_process("work", f"{APPLICATION}:{name}", *at(lima))
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)
        assert words in done.stderr


def test_a_module_is_found_in_the_working_directory_and_its_own_error_is_told(lima: Engine, elsewhere: Path):
    (elsewhere / "rules.py").write_text("import json\n\nimport pandaz\n")
    done = lrq_process("work", "rules:apply", *at(lima))
    assert done.returncode == 1
    assert done.stderr.startswith(b"lrq: the module rules cannot be imported (rules.py:3: ModuleNotFoundError: No mod")
    assert len(done.stderr.splitlines()) == 1
    assert b"Traceback" in lrq_process("work", "rules:apply", "--debug", *at(lima)).stderr


@pytest.mark.parametrize("connections", [3, 5, 20])
def test_the_pool_of_a_worker_leaves_one_connection_for_notifications(connections: int):
    pool = worker_pool(connections)
    assert (pool["pool_size"], pool["max_overflow"]) == (connections - 1, 0), "it keeps the connections of busy threads"


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_worker_applies_more_queues_than_it_has_connections(lima: Engine, start: Start):
    arrivals = [Arrivals(lima, source=f"site{number}") for number in range(8)]
    for each in arrivals:
        each.tick(*[[payload] for payload in payloads("e", 20)])
    start(APPLY, "--max-connections", "3")
    own = text(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lrq worker' AND datname = current_database()"
    )
    most = 0

    def is_done() -> bool:
        nonlocal most
        with lima.connect() as connection:
            most = max(most, int(connection.execute(own).scalar_one()))
        return all(each.left == 0 for each in arrivals)

    eventually(is_done)
    assert 1 <= most <= 3
    assert all(story(lima, f"site{number}") == texts("e", 20) for number in range(8))


def test_once_tells_a_refusal_by_a_shard_at_once(lima: Engine, tokyo: Arrivals):
    tokyo.keyed([("a", b"e1")], [("a", b"refuse")])
    done = once(lima, f"{APPLICATION}:sharded", "--timeout", "30")
    assert done.returncode == 3
    assert re.search(rb"policy from tokyo: the entry at 2 was refused \d+ times \(ValueError", done.stderr)


def test_once_makes_the_planned_retries(lima: Engine, tokyo: Arrivals):
    tokyo.tick([b"refuse"])
    assert once(lima, f"{APPLICATION}:park").returncode == 3
    [aside] = parked(lima)
    retry_parked(lima, aside.id)
    done = once(lima, f"{APPLICATION}:instance")
    assert (done.returncode, done.stdout, parked(lima)) == (0, b"policy: 1 entry applied\n", [])


def test_once_tells_the_end_of_a_stream(lima: Engine, tokyo: Arrivals):
    tokyo.tick([b"e1"])
    assert once(lima, f"{APPLICATION}:closing").returncode == 0
    tokyo.end()
    assert once(lima, f"{APPLICATION}:closing").returncode == 0
    assert story(lima) == ["e1", "<end>"]
