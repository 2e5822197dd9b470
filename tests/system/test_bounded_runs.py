"""Real servers that end once everything is delivered, and one that is killed while a link drains."""

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from discovery.status import read_status
from lrq.cli import link_actions
from queues.errors import PeerUnreachableError
from queues.names import SiteId
from tests.absent_database import absent
from tests.lrq.cli.command import lrq_process, served, spawn
from tests.system.test_links import Writer, ended, session_state, wish
from tests.system.world import QUICK, World
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def paris(world: World, folder: Path, endpoint: str, **options: object) -> tuple[str, ...]:
    """Return the options of a server of paris that sends to tokyo."""
    folder.mkdir(exist_ok=True)
    config = folder / "paris.toml"
    settings = {**QUICK, "initial_sync": "log", "lease_seconds": 2.0, **options}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    config.write_text("\n".join([*lines, "[peers]", f'tokyo = "{endpoint}"', ""]))
    url = world.site("paris").url.render_as_string(hide_password=False)
    return ("--config", str(config), "--database", url, "--site", "paris")


def test_a_bounded_run_delivers_everything_and_ends(world: World, tmp_path: Path) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    here = paris(world, tmp_path, endpoint)
    for run in range(2):
        for number in range(20):
            token = world.transmit("paris", f"{run} {number}".encode(), to=["tokyo"])
        done = lrq_process("serve", "--once", "--timeout", "60", "--json", *here)
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout.splitlines()[-1])["delivered"] is True
        eventually(lambda run=run: len(recorder.log("paris")) == 20 * (run + 1))
    done = lrq_process("serve", "--until", token, *here)
    assert done.returncode == 0
    assert f"delivered everything up to {token}" in done.stdout.decode()
    status = json.loads(lrq_process("status", "--json", "--database", here[3]).stdout)
    position = f"{status['log']['branch']}@{status['log']['seq']}"
    done = lrq_process("serve", "--until", position, *here)
    assert done.returncode == 0, done.stderr.decode()
    assert f"delivered everything up to {position}" in done.stdout.decode()


def test_a_bounded_run_ends_at_its_deadline_or_after_its_last_try(world: World, tmp_path: Path) -> None:
    world.transmit("paris", b"x", to=["tokyo"])
    here = paris(world, tmp_path, "ipc:///nowhere/lrq.sock")
    done = lrq_process("serve", "--once", "--timeout", "1.5", *here)
    assert done.returncode == 3
    assert "not drained after 1.5 s: policy to tokyo" in done.stderr.decode()
    here = paris(world, tmp_path, "ipc:///nowhere/lrq.sock", retry_forever=False, retry_limit=2)
    done = lrq_process("serve", "--once", "--timeout", "60", *here)
    assert done.returncode == 3
    assert "no further try after 3 failures" in done.stderr.decode()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_bounded_run_goes_on_after_the_database_was_away_for_a_moment(world: World, tmp_path: Path) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"x", to=["tokyo"])
    here = paris(world, tmp_path, "ipc:///nowhere/lrq.sock")
    with served("--once", *here, folder=tmp_path / "work") as server:
        eventually(lambda: session_state(world) == "backing off")
        with absent(world.site("paris")), pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1.5)
        paris(world, tmp_path, endpoint)
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(60) == 0, server.log.read_text()
    # The run ends once the sink has the entry, perhaps before the subscriber has applied it.
    eventually(lambda: recorder.log("paris") == [b"x"])


def test_a_bounded_run_warns_of_entries_for_a_site_that_is_no_peer(world: World, tmp_path: Path) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    here = paris(world, tmp_path, endpoint)
    world.transmit("paris", b"x", to=["tokyo"])
    assert b"warning" not in lrq_process("serve", "--once", "--timeout", "60", *here).stderr
    world.transmit("paris", b"y", to=["tokio"])
    done = lrq_process("serve", "--once", "--timeout", "60", *here)
    assert done.returncode == 0, done.stderr.decode()
    assert "lrq: warning: 1 entry of policy for tokio, which is no peer, " in done.stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_bounded_run_that_a_signal_ends_does_not_say_that_all_is_delivered(
    world: World, tmp_path: Path, number: int
) -> None:
    world.transmit("paris", b"x", to=["tokyo"])
    here = paris(world, tmp_path, "ipc:///nowhere/lrq.sock")
    with served("--once", *here, folder=tmp_path / "work") as server:
        assert server.stop(number) == 3
        assert server.log.read_text().splitlines()[-1] == (
            "lrq: a signal ended the run before everything was delivered: run it again"
        )


def test_a_bounded_run_reads_its_peers_again_after_sighup(world: World, tmp_path: Path) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    world.transmit("paris", b"x", to=["tokyo"])
    here = paris(world, tmp_path, "ipc:///nowhere/lrq.sock")
    with served("--once", *here, folder=tmp_path / "work") as server:
        eventually(lambda: session_state(world) == "backing off")
        paris(world, tmp_path, endpoint)
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(60) == 0, server.log.read_text()


def test_a_site_that_was_given_up_before_is_named(world: World) -> None:
    lost = {"tokyo": "ipc:///nowhere/lrq.sock"}
    server = world.server("paris", listen=[], peers=lost, initial_sync="log", retry_forever=False, retry_limit=1)
    world.transmit("paris", b"x", to=["tokyo"])
    for _ in range(3):
        with pytest.raises(PeerUnreachableError, match=r"policy to tokyo: .*no further try after 2 failures"):
            server.drain(60)


def test_a_bounded_run_finishes_a_link_that_has_ended(world: World, tmp_path: Path) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    link_actions.end(world.site("paris"), SiteId("tokyo"), world.client.client_name)
    done = lrq_process("serve", "--once", *paris(world, tmp_path, endpoint))
    assert done.returncode == 0, done.stderr.decode()
    assert (wish(world), session_state(world)) == ("ended", "finished")
    eventually(lambda: recorder.kinds("paris") == ["log 1", "end 1"])


def test_a_timeout_belongs_to_a_bounded_run(world: World, tmp_path: Path) -> None:
    done = lrq_process("serve", "--timeout", "1", *paris(world, tmp_path, "ipc:///nowhere/lrq.sock"))
    assert done.returncode == 2


@pytest.mark.parametrize("stop_after", range(3))
def test_a_server_that_is_killed_while_a_link_drains_resumes(world: World, tmp_path: Path, stop_after: int) -> None:
    (endpoint,) = world.server("tokyo", receive_bytes=20_000).endpoints
    here = paris(world, tmp_path, endpoint, window_frames=1, max_batch_bytes=1000)
    sent = [f"{number} ".encode() * 100 for number in range(200)]
    with served(*here, folder=tmp_path / "first") as server:
        # Many small ticks, of which the receive queue takes only some before its subscriber begins.
        for payload in sent:
            world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda: session_state(world) == "log-entry sync")
        link_actions.end(world.site("paris"), SiteId("tokyo"), world.client.client_name)
        recorder = world.subscribe("tokyo") if stop_after else None
        if recorder is not None:
            eventually(lambda: len(recorder.log("paris")) >= 70 * stop_after)
        else:
            eventually(lambda: session_state(world) == "draining")
        server.process.kill()
        server.process.wait(30)
    if recorder is None:
        recorder = world.subscribe("tokyo")
    second = spawn("serve", "--once", *here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, errors = second.communicate(timeout=90)
    assert second.returncode == 0, errors.decode()
    eventually(lambda: ended(recorder))
    assert recorder.log("paris") == sent
    assert recorder.kinds("paris") == ["log 200", "end 1"]
    assert wish(world) == "ended"


def leader(world: World) -> str:
    """Return the name of the server that leads the session with tokyo; empty without a leader."""
    return next((each.server for each in read_status(world.site("paris")).sessions if each.destination == "tokyo"), "")


def test_another_server_of_the_site_drains_a_link_whose_leader_is_killed_under_load(
    world: World, tmp_path: Path
) -> None:
    (endpoint,) = world.server("tokyo", receive_bytes=2_000).endpoints
    here = paris(world, tmp_path, endpoint, window_frames=1, max_batch_bytes=1000)
    with ExitStack() as stack:
        servers = [stack.enter_context(served(*here, folder=tmp_path / str(number))) for number in range(3)]
        writers = [Writer(world, f"writer {number}") for number in range(2)]
        eventually(lambda: all(len(writer.committed) > 60 for writer in writers), timeout=60)
        link_actions.end(world.site("paris"), SiteId("tokyo"), world.client.client_name)
        for writer in writers:
            writer.join()
        eventually(lambda: session_state(world) == "draining")
        # Without a subscriber the receive queue is full, so the leader dies in the middle of its work.
        led = eventually(lambda: leader(world))
        (dying,) = [server for server in servers if server.facts["name"] == led]
        dying.process.kill()
        recorder = world.subscribe("tokyo")
        eventually(lambda: ended(recorder), timeout=60)
        eventually(lambda: wish(world) == "ended")
        assert leader(world) != led
    for writer in writers:
        own = [payload for payload in recorder.log("paris") if payload.startswith(f"{writer.name} ".encode())]
        assert own == writer.committed
    assert recorder.kinds("paris") == [f"log {sum(len(writer.committed) for writer in writers)}", "end 1"]
