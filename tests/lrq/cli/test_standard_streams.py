"""Commands whose standard streams are closed, or take nothing more."""

import subprocess
import sys

import pytest

from tests.lrq.cli.command import ROOT
from tests.lrq.cli.source import SourceSite

#: Ends with the number of a file that is opened later as its exit code.
OPEN_LATER = (
    "import os, sys; from lrq.cli.process.standard_streams import make_usable; make_usable();"
    "sys.exit(os.open(os.devnull, os.O_RDONLY))"
)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_later_file_gets_the_number_of_a_closed_stream(closed: str):
    done = subprocess.run(["bash", "-c", f"{sys.executable} -c '{OPEN_LATER}' {closed}"], cwd=ROOT, check=False)
    assert done.returncode > 2


@pytest.mark.processes
@pytest.mark.parametrize("command", ["status", "top", "peer list"])
def test_a_full_stdout_is_told_as_such(source: SourceSite, command: str):
    words = f"{sys.executable} -m lrq {command} -d '{source.url}' >/dev/full"
    done = subprocess.run(
        ["env", "-u", "PYTHONUNBUFFERED", "bash", "-c", words], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"lrq: stdout could not be written (No space left on device)\n")
