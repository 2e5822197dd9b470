"""`lrq serve` reads the peers of its file again after SIGHUP, in a real process."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from lr_server import LogReplicationServer, Settings
from tests.conftest import NewSite
from tests.lrq.cli.command import Command, Served, served
from tests.waiting import eventually

pytestmark = pytest.mark.processes


def url(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def write(file: Path, engine: Engine, *lines: str, **peers: str) -> Path:
    told = [f'site_id = "paris"\ndatabase_url = "{url(engine)}"\nsnapshot_poll_seconds = 0.05', *lines, "[peers]"]
    file.write_text("\n".join([*told, *(f'{site} = "{endpoint}"' for site, endpoint in peers.items())]))
    return file


def hang_up(server: Served) -> None:
    server.process.send_signal(signal.SIGHUP)


def states(lrq: Command, paris: Engine) -> dict[str, str]:
    found = lrq("status", "--json", "-d", url(paris)).json
    return {each["destination"]: each["state"] for each in found["sessions"]}


def shown(lrq: Command, paris: Engine) -> str:
    """Return the status as text, without the breaks of lines."""
    return " ".join(lrq("status", "-d", url(paris)).out.split())


@pytest.fixture
def sink(new_site: NewSite):
    """Give a function that runs a site in this process and returns its endpoint."""
    running: list[LogReplicationServer] = []

    def run(site: str) -> str:
        settings = Settings(site_id=site, database_url=url(new_site(site)), listen=["tcp://127.0.0.1:0"])
        running.append(LogReplicationServer(settings))
        running[-1].start()
        return running[-1].endpoints[0]

    yield run
    for server in running:
        server.stop()


def test_a_server_follows_its_file_after_sighup(
    lrq: Command, site: Engine, sink: Callable[[str], str], tmp_path: Path
) -> None:
    tokyo, lima = sink("tokyo"), sink("lima")
    file = write(tmp_path / "site.toml", site, 'initial_sync = "log"', tokyo=tokyo)
    with served("--config", str(file), folder=tmp_path / "work") as paris:
        assert lrq("send", "-d", url(site), "--client", "policy", "--to", "tokyo", "x").code == 0
        eventually(lambda: states(lrq, site) == {"tokyo": "log-entry sync"})
        write(file, site, 'initial_sync = "log"', lima=lima)
        assert lrq("send", "-d", url(site), "--client", "policy", "--to", "lima", "y").code == 0
        assert states(lrq, site) == {"tokyo": "log-entry sync"}, "the file counts from the signal on"
        hang_up(paris)
        eventually(lambda: states(lrq, site) == {"tokyo": "inactive", "lima": "log-entry sync"})
        eventually(lambda: "peers from the settings, version 2" in shown(lrq, site))
        assert paris.stop() == 0
    assert "Traceback" not in paris.log.read_text()


def test_a_wrong_file_changes_nothing_and_the_status_tells_why(
    lrq: Command, site: Engine, sink: Callable[[str], str], tmp_path: Path
) -> None:
    file = write(tmp_path / "site.toml", site, 'initial_sync = "log"', tokyo=sink("tokyo"))
    with served("--config", str(file), folder=tmp_path / "work") as paris:
        assert lrq("send", "-d", url(site), "--client", "policy", "--to", "tokyo", "x").code == 0
        eventually(lambda: states(lrq, site) == {"tokyo": "log-entry sync"})
        right = file.read_text()
        file.write_text(right + '\nparis = "tcp://127.0.0.1:9"\n')
        hang_up(paris)
        words = "peers names 'paris', which is this site itself: remove that peer"
        eventually(lambda: words in shown(lrq, site))
        status = lrq("status", "--json", "-d", url(site))
        assert (status.code, states(lrq, site)) == (3, {"tokyo": "log-entry sync"})
        file.write_text("no toml at all")
        hang_up(paris)
        eventually(lambda: "is no TOML" in shown(lrq, site))
        file.write_text(right)
        hang_up(paris)
        eventually(lambda: lrq("status", "--json", "-d", url(site)).code == 0)
        assert paris.stop() == 0
    assert "Traceback" not in paris.log.read_text()


def test_a_late_member_of_replicas_joins_after_sighup_and_a_wrong_group_is_refused(
    lrq: Command, site: Engine, sink: Callable[[str], str], tmp_path: Path
) -> None:
    peers = {"tokyo-a": sink("tokyo-a"), "tokyo-b": sink("tokyo-b")}
    file = tmp_path / "site.toml"

    def group(*members: str) -> None:
        write(file, site, 'initial_sync = "log"', **peers)
        file.write_text(f"{file.read_text()}\n[replicas]\ntokyo = {list(members)}\n")

    group("tokyo-a")
    with served("--config", str(file), folder=tmp_path / "work") as paris:
        assert lrq("send", "-d", url(site), "--client", "policy", "--to", "tokyo", "x").code == 0
        eventually(lambda: states(lrq, site) == {"tokyo-a": "log-entry sync"})
        group("tokyo-a", "oslo")
        hang_up(paris)
        eventually(lambda: "replicas[tokyo]: 'oslo' is no peer" in shown(lrq, site))
        assert states(lrq, site) == {"tokyo-a": "log-entry sync"}
        group("tokyo-a", "tokyo-b")
        hang_up(paris)
        eventually(lambda: states(lrq, site) == dict.fromkeys(peers, "log-entry sync"))
        assert lrq("drain", "-d", url(site), "--destination", "tokyo", "--timeout", "20").code == 0
        assert paris.stop() == 0


def test_settings_that_need_a_new_start_are_named(lrq: Command, site: Engine, tmp_path: Path) -> None:
    file = write(tmp_path / "site.toml", site)
    with served("--config", str(file), folder=tmp_path / "work") as paris:
        write(file, site, "window_frames = 7", 'initial_sync = "log"')
        hang_up(paris)
        told = "these settings change with the next start of the server only"
        eventually(lambda: told in paris.log.read_text())
        assert "initial_sync, window_frames" in paris.log.read_text()
        assert paris.stop() == 0
