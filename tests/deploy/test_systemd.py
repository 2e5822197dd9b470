"""The units of systemd: systemd itself accepts them, and they expose little."""

import re
from pathlib import Path

import pytest

from tests.deploy.kit import DEPLOY, run, systemd_analyze

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
#: The highest exposure that systemd may find, in tenths; 100 is a service without any protection.
EXPOSURE = 20


def test_there_are_units_for_the_server_and_for_the_listeners():
    assert [unit.name for unit in UNITS] == ["lrq-work@.service", "lrq@.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path):
    # The program is not installed here, and the name of an instance is part of the file's name.
    installed = tmp_path / unit.name.replace("@.", "@paris.")
    installed.write_text(unit.read_text().replace("/opt/lrq/bin/lrq ", "/bin/true "))
    done = run(systemd_analyze(), "verify", "--man=no", installed)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_exposes_little(unit: Path):
    done = run(systemd_analyze(), "security", "--offline=yes", f"--threshold={EXPOSURE}", unit)
    assert done.returncode == 0, done.stdout


def test_a_server_tells_systemd_of_its_start_and_its_life():
    text = (DEPLOY / "systemd" / "lrq@.service").read_text()
    assert re.search(r"^Type=notify$", text, re.MULTILINE)
    assert re.search(r"^WatchdogSec=\d+$", text, re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_servers_of_a_machine_see_each_other(unit: Path):
    assert not re.search(r"^(ProtectProc|ProcSubset)=", unit.read_text(), re.MULTILINE)
