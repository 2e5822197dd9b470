"""docs/deploy.md for systemd: its commands work below another root, and the units' programs with the installed files.

The user is not made, and nothing is started by systemd, which does not run here.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.deploy.kit import DEPLOY, ROOT, systemctl
from tests.deploy.page import ON_SYSTEMD, PAGE
from tests.lrq.cli.command import served

SERVER, WORKER = (DEPLOY / "systemd" / f"{name}@.service" for name in ("lrq", "lrq-work"))
LISTENER = """import lrq


@lrq.listener("policy")
def apply(session, source_id, entries):
    pass
"""


def lines_of(unit: Path) -> dict[str, str]:
    """Return the settings of a unit for the site paris."""
    return dict(re.findall(r"^(\w+)=(.*)$", unit.read_text().replace("%i", "paris"), re.MULTILINE))


def variables(file: Path) -> dict[str, str]:
    """Return the variables of a file as systemd reads them."""
    return dict(line.split("=", 1) for line in shlex.split(file.read_text()))


def below(text: str, root: Path) -> str:
    """Return *text* with the places of the page below *root*, and with the programs of this environment."""
    moved = re.sub(r"(?<= )/(etc|var)/", rf"{root}/\1/", text)
    return moved.replace("/opt/lrq/bin/", f"{Path(sys.executable).parent}/")


def is_clean(name: str) -> bool:
    return not name.startswith(("LRQ_", "PYTHON", "PG"))


def shell(folder: Path, *lines: str) -> str:
    """Run *lines* in *folder*, where the first failure ends the shell; return the output."""
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(lines)], cwd=folder, text=True, timeout=120, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={n: v for n, v in os.environ.items() if is_clean(n)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Follow the page for systemd below a root; return the root."""
    root, checkout = tmp_path / "root", tmp_path / "checkout"
    (root / "etc/systemd/system").mkdir(parents=True)
    checkout.mkdir()
    (checkout / "deploy").symlink_to(DEPLOY)
    (settings,) = re.findall(r"^```toml\n(# paris\.toml\n.*?)^```$", PAGE, re.M | re.S)
    (checkout / "paris.toml").write_text(settings.replace(":7400", ":0").replace(":7464", ":0"))
    (checkout / "paris.env").write_text(f"LRQ_DATABASE_URL='sqlite:///{root}/paris.db'\n")
    copy, toml, env, init = ON_SYSTEMD[2:6]
    told = shell(checkout, *(below(line, root) for line in (copy, toml, env, init)))
    assert "created the tables" in told
    return root


def test_the_user_of_the_page_is_that_of_the_units():
    name, *options = reversed(shlex.split(ON_SYSTEMD[0])[1:])
    assert {(lines_of(unit)["User"], lines_of(unit)["Group"]) for unit in (SERVER, WORKER)} == {(name, name)}
    assert "--user-group" in options
    assert lines_of(SERVER)["WorkingDirectory"] in options


def test_the_programs_of_the_units_are_installed_with_extras_that_exist():
    venv = re.search(r"-m venv (\S+) && \1/bin/pip install '\.\[(.+)\]'$", ON_SYSTEMD[1])
    assert venv
    assert {lines_of(unit)["ExecStart"].split()[0] for unit in (SERVER, WORKER)} == {f"{venv[1]}/bin/lrq"}
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(venv[2].split(",")) <= set(known)


def test_only_root_reads_the_file_with_the_password(installed: Path):
    assert lines_of(SERVER)["EnvironmentFile"] == "-/etc/lrq/paris.env"
    assert (installed / "etc/lrq/paris.env").stat().st_mode & 0o777 == 0o600


def test_systemd_enables_the_instance_of_the_page(installed: Path):
    shell(installed, ON_SYSTEMD[-1].replace("systemctl enable --now ", f"{systemctl()} --root={installed} enable "))
    wanted = installed / "etc/systemd/system/multi-user.target.wants/lrq@paris.service"
    assert wanted.is_symlink()
    assert Path(os.readlink(wanted)).name == SERVER.name
    assert (installed / "etc/systemd/system" / SERVER.name).read_text() == SERVER.read_text()


@pytest.mark.processes
def test_the_server_of_the_unit_begins_with_the_installed_files(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program, command, *options = shlex.split(below(lines_of(SERVER)["ExecStart"], installed))
    assert (Path(program).name, command) == ("lrq", "serve")
    for name, value in variables(installed / "etc/lrq/paris.env").items():
        monkeypatch.setenv(name, value)
    with served(*options, folder=tmp_path / "server") as server:
        assert server.facts["site"] == "paris"


@pytest.mark.processes
def test_the_worker_of_the_unit_finds_its_listeners_and_the_database(installed: Path):
    modules = installed / lines_of(WORKER)["WorkingDirectory"].removeprefix("/")
    modules.mkdir(parents=True)
    (modules / "policy.py").write_text(LISTENER)
    file = installed / lines_of(WORKER)["EnvironmentFile"].removeprefix("/")
    file.write_text((installed / "etc/lrq/paris.env").read_text() + "LISTENERS=policy:apply\n")
    command = below(lines_of(WORKER)["ExecStart"], installed)
    assert "policy: 0 entries applied" in shell(modules, f"set -a; . {file}; {command} --once")
    for told in (
        f"`{lines_of(WORKER)['EnvironmentFile']}`",
        f"`{lines_of(WORKER)['WorkingDirectory']}`",
        "`LISTENERS`",
    ):
        assert told in PAGE
