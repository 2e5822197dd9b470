"""The commands of the pages for links, replays, resends and fences do as `operating.md` and `links.md` say."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from lr_client import RoutingQueueListener
from lrq.testing import LocalSite, pair
from queues.errors import LinkEndedError
from tests.house.typed_lines import TypeLine, lines
from tests.lrq.cli.command import Command
from tests.waiting import eventually

pytestmark = pytest.mark.long

REPLAYS = lines(__name__, "docs/operating.md", "lrq replay")
RESENDS = lines(__name__, "docs/operating.md", "lrq resend")
FENCES = lines(__name__, "docs/operating.md", "lrq fence")
LINKS = lines(__name__, "docs/links.md", "lrq link")
#: The longest wait, in seconds: a machine may stand still meanwhile.
PATIENCE = 100.0


class Rules(RoutingQueueListener):
    """Keeps the payloads in memory, and each rollback as an empty one."""

    client_name = "policy"

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def process_updates_in_log_entry_sync(self, session, source_id, entries) -> bool:
        self.heard += [entry.opaque_payload for entry in entries]
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync

    def on_rollback(self, session, source_id, position) -> None:
        self.heard.append(b"")


@pytest.fixture
def type_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TypeLine:
    monkeypatch.chdir(tmp_path)
    return TypeLine(Command(capsys))


@pytest.fixture
def sites() -> Iterator[tuple[LocalSite, LocalSite, Rules]]:
    """Give paris, tokyo, and the listener at tokyo, which has applied an entry."""
    with pair("paris", "tokyo", acknowledged_retention_seconds=3600) as (paris, tokyo):
        rules = Rules()
        tokyo.subscribe(rules)
        paris.send("policy", b"rule 1")
        paris.settle(PATIENCE)
        yield paris, tokyo, rules


def go_to(site: LocalSite) -> None:
    """Write the settings of a site into the working directory, where each command finds them."""
    url = site.engine.url.render_as_string(hide_password=False)
    Path("lrq.toml").write_text(f'site_id = "{site.site_id}"\ndatabase_url = "{url}"\n')


def test_the_commands_for_links_end_forget_and_begin_a_link(
    sites: tuple[LocalSite, LocalSite, Rules], type_line: TypeLine
):
    paris, _, rules = sites
    show, end, forget, begin = LINKS
    go_to(paris)
    assert "tokyo" in type_line(show).out
    assert type_line(end).code == 0
    with pytest.raises(LinkEndedError):
        paris.send("policy", b"refused")
    eventually(lambda: type_line(forget).code == 0, timeout=PATIENCE)
    assert type_line(begin).code == 0
    paris.send("policy", b"rule 2")
    eventually(lambda: rules.heard[-1:] == [b"rule 2"], timeout=PATIENCE)


@pytest.mark.parametrize("line", REPLAYS)
def test_the_commands_for_replays_have_entries_come_again(
    line: str,
    sites: tuple[LocalSite, LocalSite, Rules],
    type_line: TypeLine,
    monkeypatch: pytest.MonkeyPatch,
):
    _, tokyo, rules = sites
    go_to(tokyo)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = type_line(line, {"--from 1201": "--from 1"} if "1201" in line else None)
    assert done.code == 0, done.err
    eventually(lambda: rules.heard == [b"rule 1", b"", b"rule 1"], timeout=PATIENCE)


@pytest.mark.parametrize("line", RESENDS)
def test_the_commands_for_resends_send_a_range_once_more(
    line: str,
    sites: tuple[LocalSite, LocalSite, Rules],
    type_line: TypeLine,
    monkeypatch: pytest.MonkeyPatch,
):
    paris, _, rules = sites
    go_to(paris)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    of_time = {"2026-07-01T09:00Z": "2001-07-01T09:00Z", "2026-07-01T10:00Z": "2101-07-01T10:00Z"}
    done = type_line(line, {"--from 1201 --to 1300": "--from 1 --to 1"} if "1201" in line else of_time)
    assert done.code == 0, done.err
    eventually(lambda: rules.heard == [b"rule 1", b"rule 1"], timeout=PATIENCE)


def test_the_commands_for_fences_show_and_forget_a_generation(
    sites: tuple[LocalSite, LocalSite, Rules], type_line: TypeLine
):
    paris, tokyo, rules = sites
    show, reset = FENCES
    go_to(tokyo)
    assert "paris" in type_line(show).out
    assert "is forgotten" in type_line(reset).out
    paris.send("policy", b"rule 2")
    eventually(lambda: rules.heard[-1:] == [b"rule 2"], timeout=PATIENCE)
