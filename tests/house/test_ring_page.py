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
from lrq.cli.ring_plan import layout_of, steps
from tests.house.page_blocks import take
from tests.lr_client.producer.small_server import SmallServer

PAGE = (Path(__file__).parents[2] / "docs" / "running-a-ring.md").read_text()
ONE, SEVERAL = take(__name__, "docs/running-a-ring.md", "toml")
(PROGRAM,) = take(__name__, "docs/running-a-ring.md", "python")


def several() -> Settings:
    """Return the settings of the first block with the lines of the second one in their place."""
    first, second = tomllib.loads(ONE), tomllib.loads(SEVERAL)
    return Settings(**{**first, **second, "ring": {**first["ring"], **second["ring"]}})


def test_the_settings_of_one_ring_and_of_several_are_accepted():
    one = Settings(**tomllib.loads(ONE))
    assert one.ring is not None
    assert (one.ring.rings, several().ring.rings) == (1, 3)  # type: ignore[union-attr]


def test_the_commands_of_the_page_exist():
    named = set(re.findall(r"lrq ring ([a-z]+)", PAGE))
    assert named == set(get_command(ring_commands).commands)  # type: ignore[attr-defined]


def test_the_page_tells_as_many_steps_as_the_command():
    settings = several()
    assert settings.ring is not None
    layout = layout_of(settings.site_id, settings.ring)
    told = PAGE.split("### From 3 rings to 6")[1].split("\n## ")[0]
    assert len(re.findall(r"^\d\. ", told, re.MULTILINE)) == len(steps(layout.doubled(6), 6))


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
