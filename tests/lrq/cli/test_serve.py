"""`lrq serve`, in real processes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues.database import leases
from tests.conftest import NewSite
from tests.lrq.cli.command import ROOT, ended, lrq_process, served, spawn
from tests.waiting import eventually

pytestmark = pytest.mark.processes

LISTEN = ("--listen", "tcp://127.0.0.1:0")


def url(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def here(engine: Engine, site: str = "paris") -> tuple[str, ...]:
    return ("--database", url(engine), "--site", site)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_endpoints_and_ends_cleanly(site: Engine, tmp_path: Path, number: int):
    with served(*here(site), *LISTEN, folder=tmp_path) as server:
        assert server.facts["pid"] == server.process.pid
        assert (server.facts["site"], server.facts["owner"]) == ("paris", True)
        (endpoint,) = server.facts["endpoints"]
        assert int(endpoint.rpartition(":")[2]) > 0
        held = leases.holder(site, "server")
        assert held is not None
        assert not held.expired
        assert server.stop(number) == 0
    held = leases.holder(site, "server")
    assert held is not None
    assert held.expired
    assert "Traceback" not in server.log.read_text()


_SIGNAL_FOR_ANOTHER_THREAD = """
import signal, threading
from lrq.cli.process.server_signals import ServerSignals
signals = ServerSignals()
threading.Thread(target=threading.Event().wait, daemon=True).start()
# The system now gives the signal to the other thread, as it does now and then by itself.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
print("serves", flush=True)
signals.serve(lambda: print("read again", flush=True))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="threads have no signals of their own")
def test_a_signal_that_another_thread_gets_is_obeyed():
    command = [sys.executable, "-c", _SIGNAL_FOR_ANOTHER_THREAD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"serves\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == b"read again\n"
        process.terminate()
        assert ended(process) == 0


_SIGNAL_AT_THE_END = """
import os, signal
from lrq.cli.process.server_signals import ServerSignals
signals = ServerSignals()
signals.spare_end()
os.kill(os.getpid(), signal.SIGTERM)
print("the end was not interrupted")
"""


def test_a_signal_does_not_interrupt_the_end_of_a_server():
    done = subprocess.run([sys.executable, "-c", _SIGNAL_AT_THE_END], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, b"the end was not interrupted\n"), done.stderr.decode()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")
def test_sigusr1_shows_the_stacks_of_all_threads_and_the_server_goes_on(site: Engine, tmp_path: Path):
    with served(*here(site), *LISTEN, folder=tmp_path) as server:
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: "in serve" in server.log.read_text())
        # The stacks of the other threads may come later.
        eventually(lambda: server.log.read_text().count("most recent call last") > 3)
        assert server.stop() == 0


def test_without_json_the_first_line_is_a_sentence(site: Engine):
    process = spawn("serve", *here(site), *LISTEN, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    process.terminate()
    assert ended(process) == 0
    assert line.startswith(f"paris (pid {process.pid}) listens at tcp://127.0.0.1:")
    assert process.stdout.read() == b""
    process.stdout.close()


def test_serve_creates_the_tables_only_on_request(new_database: Callable[[], str], tmp_path: Path):
    options = ("--database", new_database(), "--site", "paris", *LISTEN)
    refused = lrq_process("serve", *options)
    assert (refused.returncode, b"run `lrq init`" in refused.stderr) == (1, True)
    with served("--init", *options, folder=tmp_path) as server:
        assert server.facts["owner"]
    of_another = lrq_process("serve", "--init", *options[:3], "tokyo", *LISTEN)
    assert (of_another.returncode, b"belongs to site 'paris'" in of_another.stderr) == (1, True)


def test_a_second_server_names_the_first_one_and_takes_over(site: Engine, tmp_path: Path):
    with (
        served(*here(site), *LISTEN, folder=tmp_path / "1") as first,
        served(*here(site), *LISTEN, folder=tmp_path / "2") as second,
    ):
        assert (second.facts["owner"], "takes the ticks" in second.facts["reason"]) == (False, True)
        assert first.stop() == 0
        eventually(lambda: "sequencer of the site" in second.log.read_text())
        assert second.stop() == 0


def test_a_second_server_ends_cleanly(site: Engine, tmp_path: Path):
    with (
        served(*here(site), *LISTEN, folder=tmp_path / "1"),
        served(*here(site), *LISTEN, folder=tmp_path / "2") as second,
    ):
        assert second.stop() == 0
        assert "Traceback" not in second.log.read_text()


def test_a_sent_entry_arrives_and_is_drained_and_is_never_logged(new_site: NewSite, tmp_path: Path):
    paris, tokyo = new_site("paris"), new_site("tokyo")
    with served(*here(tokyo, "tokyo"), *LISTEN, folder=tmp_path / "tokyo") as sink:
        peer = ("--peer", f"tokyo={sink.facts['endpoints'][0]}")
        log = {"LRQ_INITIAL_SYNC": "log"}
        process = spawn("serve", *here(paris), *peer, "--log-format", "json", env=log, stdout=-1, stderr=-1)
        try:
            about = ("--database", url(paris))
            payload = "a payload that is nobody's business"
            sent = lrq_process("send", *about, "--client", "policy", "--to", "tokyo", "--wait", "30", payload)
            assert sent.returncode == 0, sent.stderr
            drained = lrq_process("drain", *about, "--timeout", "30", "--json")
            assert (drained.returncode, json.loads(drained.stdout)["sessions"]) == (0, 1)
            received = json.loads(lrq_process("browse", "LRQ_Recv_policy_paris", "-d", url(tokyo), "--json").stdout)
            assert received["entries"][0]["size"] == len(payload)
        finally:
            process.terminate()
            _, logged = process.communicate(timeout=30)
    assert process.returncode == 0
    events = [json.loads(line) for line in logged.decode().splitlines()]
    assert any({"event": "sequencer of the site", "site": "paris"}.items() <= event.items() for event in events)
    assert payload not in logged.decode()


def test_status_names_an_unreachable_peer(site: Engine, tmp_path: Path):
    with served(*here(site), "--peer", "tokyo=tcp://127.0.0.1:1", folder=tmp_path):
        sent = lrq_process("send", "-d", url(site), "--client", "policy", "--to", "tokyo", "x")
        assert sent.returncode == 0
        words = b"policy to tokyo: backing off, tcp://127.0.0.1:1 cannot be reached: Connection refused"
        eventually(lambda: words in lrq_process("status", "-d", url(site)).stdout)


def test_a_site_attaches_itself_by_an_option_and_its_status_tells_a_source_that_is_away(
    new_site: NewSite, tmp_path: Path
):
    paris, tokyo = new_site("paris"), new_site("tokyo")
    with served(*here(paris), *LISTEN, "--peer", "tokyo=attached:tokyo", folder=tmp_path / "paris") as source:
        attach = ("--attach", f"paris={source.facts['endpoints'][0]}")
        with served(*here(tokyo, "tokyo"), *attach, folder=tmp_path / "tokyo"):
            sent = lrq_process("send", "-d", url(paris), "--client", "policy", "--to", "tokyo", "--wait", "30", "x")
            assert sent.returncode == 0, sent.stderr
            assert source.stop() == 0
            words = b"this server is not attached to paris"
            eventually(lambda: words in (status := lrq_process("status", "-d", url(tokyo))).stdout and status)
            assert lrq_process("status", "-d", url(tokyo)).returncode == 3


def test_log_level_sets_the_level_of_the_log(site: Engine, tmp_path: Path):
    with served(*here(site), "--log-level", "error", folder=tmp_path) as server:
        assert server.stop() == 0
        assert server.log.read_text() == ""


def test_an_address_in_use_is_a_one_line_error(new_site: NewSite, tmp_path: Path):
    paris, rome = new_site("paris"), new_site("rome")
    with served(*here(paris), *LISTEN, folder=tmp_path) as server:
        done = lrq_process("serve", *here(rome, "rome"), "--listen", server.facts["endpoints"][0])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[-1].startswith("lrq: ")
    assert b"Traceback" not in done.stderr


def test_the_settings_may_come_from_a_file(site: Engine, tmp_path: Path):
    file = tmp_path / "site.toml"
    file.write_text(f'site_id = "paris"\ndatabase_url = "{url(site)}"\nlisten = ["tcp://127.0.0.1:0"]\n')
    with served("--config", str(file), folder=tmp_path / "work") as server:
        assert len(server.facts["endpoints"]) == 1
        assert server.stop() == 0


def test_an_unknown_setting_in_the_file_is_a_one_line_error(tmp_path: Path):
    file = tmp_path / "site.toml"
    file.write_text('site_id = "paris"\ndatabase_url = "sqlite:///x.db"\ntick_rowz = 1\n')
    done = lrq_process("serve", "--config", str(file))
    assert (done.returncode, done.stderr) == (1, b"lrq: there is no setting 'tick_rowz': did you mean 'tick_rows'?\n")
