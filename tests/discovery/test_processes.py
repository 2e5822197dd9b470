"""Owner names show that a process of this machine has died."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from discovery import processes
from discovery.processes import owner_name, surely_gone

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")

_OWNER = "from discovery.processes import owner_name; print(owner_name(), flush=True); input()"


def _other_process() -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen([sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_two_owner_names_of_one_process_differ() -> None:
    assert owner_name() != owner_name()


def test_this_process_is_not_gone() -> None:
    assert not surely_gone(owner_name())


def test_another_process_is_gone_once_it_is_killed_even_before_it_is_reaped() -> None:
    process, owner = _other_process()
    with process:
        assert not surely_gone(owner)
        process.send_signal(signal.SIGSTOP)
        assert not surely_gone(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert surely_gone(owner)
    assert surely_gone(owner)


def test_a_later_process_with_the_same_id_is_not_the_owner() -> None:
    host, pid, start, machine, rest = owner_name().rsplit(":", 4)
    assert surely_gone(":".join((host, pid, str(int(start) - 1), machine, rest)))


def test_a_process_that_proc_hides_is_gone_only_once_its_id_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, owner = _other_process()
    with process:
        assert not surely_gone(owner)
        # As with the mount option `hidepid`, for the processes of other users.
        monkeypatch.setattr(processes, "_PROC", tmp_path)
        assert not surely_gone(owner)
        process.kill()
    assert surely_gone(owner)


@pytest.mark.parametrize("owner", ["", "me", "a:b:c", "host:1:2:other-machine:ff", "host:x:2::ff", "a:" * 20])
def test_owners_of_other_machines_or_formats_never_count_as_gone(owner: str) -> None:
    assert not surely_gone(owner)
