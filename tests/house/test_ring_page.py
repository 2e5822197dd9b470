"""The settings, the commands and the program of `docs/running-a-ring.md` are accepted."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from discovery.rings import ring_of
from lr_server import Settings
from lrq.cli.commands.ring import app as ring_commands
from lrq.cli.ring.plan import layout_of, steps
from tests.house.page_blocks import take
from tests.house.typed_lines import TypeLine
from tests.lr_client.producer.small_server import SmallServer
from tests.lrq.cli.command import Command

PAGE = (Path(__file__).parents[2] / "docs" / "running-a-ring.md").read_text()
ONE, NAMED, SEVERAL = take(__name__, "docs/running-a-ring.md", "toml")
(PLAN,) = take(__name__, "docs/running-a-ring.md", "", begin=r"a\$ lrq ring plan")
(PROGRAM,) = take(__name__, "docs/running-a-ring.md", "python")


def several() -> Settings:
    """Return the settings of the first block with the lines of the second one in their place."""
    first, second = tomllib.loads(ONE), tomllib.loads(SEVERAL)
    return Settings(**{**first, **second, "ring": {**first["ring"], **second["ring"]}})


def test_the_settings_of_one_ring_and_of_several_are_accepted():
    one = Settings(**tomllib.loads(ONE))
    assert one.ring is not None
    assert (one.ring.rings, several().ring.rings) == (1, 3)  # type: ignore[union-attr]


def test_the_table_with_names_stands_for_the_same_settings():
    written = tomllib.loads(ONE)
    plain = Settings(**written)
    named = Settings(
        **{key: written[key] for key in written.keys() - {"site_id", "database_url"}} | tomllib.loads(NAMED)
    )
    assert named.ring is not None
    assert named.ring.names == ["hub-1", "hub-2", "hub-3"]
    assert named.model_copy(update={"ring": named.ring.model_copy(update={"names": ()})}) == plain


def test_the_commands_of_the_page_exist():
    named = set(re.findall(r"lrq ring ([a-z]+)", PAGE))
    assert named == set(get_command(ring_commands).commands)  # type: ignore[attr-defined]


def test_the_page_tells_as_many_steps_as_the_command():
    settings = several()
    assert settings.ring is not None
    layout = layout_of(settings.site_id, settings.ring)
    told = PAGE.split("### From 3 rings to 6")[1].split("\n## ")[0]
    assert len(re.findall(r"^\d\. ", told, re.MULTILINE)) == len(steps(layout.doubled(6), 6))


@pytest.mark.long
def test_the_plan_of_the_page_has_the_settings_of_all_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    type_line = TypeLine(Command(capsys))
    mine, ring = SEVERAL.split("[ring]")
    rest = re.sub(r"^(site_id|database_url) = .*\n", "", ONE.split("[ring]")[0], flags=re.MULTILINE)
    Path("paris-0.toml").write_text(f"{mine}{rest}[ring]{ring}")
    plan, issue = (line.removeprefix("a$ ") for line in PLAN.splitlines())
    planned = type_line(plan)
    assert planned.code == 0, planned.err
    sites = re.findall(r'^site_id = "(.*)"$', planned.out, re.MULTILINE)
    assert sites == [f"paris-{number}" for number in range(3) for _ in range(3)]
    # The authority that the page about TLS makes.
    assert type_line("lrq tls init").code == 0
    assert type_line(issue).code == 0


def test_the_program_names_the_endpoints_of_the_plan():
    settings, named = several(), dict[str, Any]()
    assert settings.ring is not None
    layout = layout_of(settings.site_id, settings.ring)
    exec("rings = " + PROGRAM.split("rings = ")[1].split("tls = ")[0], named)
    planned = [layout.members(number)[0] for number in range(3)]
    assert named["rings"] == {each.site: ",".join(each.members) for each in planned}


@pytest.mark.processes
def test_the_program_sends_to_the_ring_of_the_key(tmp_path: Path):
    servers = [SmallServer() for _ in range(3)]
    program = re.sub(r"tls = \{.*\}", "tls = {}", PROGRAM)
    for number, server in enumerate(servers):
        program = re.sub(rf'("paris-{number}": )".*"', rf'\1"{server.endpoint}"', program)
    (tmp_path / "readings.py").write_text(program)
    done = subprocess.run([sys.executable, "readings.py"], cwd=tmp_path, capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    stored = [server.log.payloads("meters", "meter-hub") for server in servers]
    for server in servers:
        server.stop()
    assert stored == [[b"21.5"] if ring_of("meter-17", 3) == number else [] for number in range(3)]
