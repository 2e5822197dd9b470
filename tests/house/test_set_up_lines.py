"""The lines by which pages install lrq, and those of `docs/operating.md` that set a site up."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

import queues
from lr_server import LogReplicationServer, Settings
from tests.certificates import issued
from tests.house.page_blocks import take
from tests.house.test_operating import SETTINGS
from tests.house.test_set_up import EXTRAS
from tests.house.typed_lines import TypeLine, lines, words_of
from tests.lrq.cli.command import Command, served

SET_UP = lines(__name__, "docs/operating.md", "pip install")
CONSOLE = lines(__name__, "docs/console.md", "pip install")
(TUTORIAL,) = take(__name__, "docs/tutorial.md", "sh", begin="pip install")
#: The place of the settings on the page, and in the folder of a test.
PLACES = {"/etc/lrq/paris.toml": "paris.toml"}


@pytest.mark.parametrize("line", [SET_UP[0], CONSOLE[0], TUTORIAL.splitlines()[0]])
def test_the_extras_that_a_page_installs_exist(line: str):
    (named,) = re.findall(r"^pip install '\.\[([a-z,]+)\]'(?: +#.*)?$", line)
    assert set(named.split(",")) <= EXTRAS.keys()


def new_site(folder: Path, name: str) -> str:
    """Make a site and return the URL of its database."""
    url = f"sqlite:///{folder}/{name}.db"
    engine = queues.create_engine(url)
    queues.initialize(engine, site_id=name)
    engine.dispose()
    return url


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[str]:
    """Give the settings of the page with the places of this test; the servers of both peers work."""
    authority = trustme.CA()

    def certified(name: str) -> dict[str, str]:
        (tmp_path / name).mkdir()
        files = issued(authority, tmp_path / name, common_name=name)
        return {
            "tls_certificate": str(files.certificate),
            "tls_key": str(files.key),
            "tls_authority": str(files.authority),
        }

    found, free = tomllib.loads(SETTINGS), "tls://127.0.0.1:0"
    own = {"database_url": f"sqlite:///{tmp_path}/paris.db", "metrics": "127.0.0.1:0", **certified("paris")}
    places = {found[name]: value for name, value in own.items()} | {found["listen"][0]: free}
    with ExitStack() as stack:
        for name, endpoints in found["peers"].items():
            there = {"site_id": name, "database_url": new_site(tmp_path, name), "listen": [free], **certified(name)}
            places[endpoints] = stack.enter_context(LogReplicationServer(Settings(**there))).endpoints[0]
        text = SETTINGS
        for there_was, here in places.items():
            text = text.replace(f'"{there_was}"', f'"{here}"')
        yield text


@pytest.mark.long
@pytest.mark.processes
def test_the_set_up_of_the_guide_makes_a_site_that_serves(
    settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    type_line = TypeLine(Command(capsys))
    _, example, init, doctor, serve = SET_UP
    assert type_line(example).code == 0
    assert "site_id" in (tmp_path / "paris.toml").read_text()
    (tmp_path / "paris.toml").write_text(settings)
    for _ in range(2):  # "may be repeated"
        assert type_line(init, PLACES).code == 0
    found = type_line(doctor, PLACES)
    assert found.code == 0, found.out
    assert len(re.findall("peer", found.out)) >= 2
    program, *words = words_of(serve, PLACES)
    assert program == "serve"
    with served(*words, folder=tmp_path) as here:
        assert here.facts["site"] == "paris"
        assert here.stop() == 0
