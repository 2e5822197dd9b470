"""The command line as a function, and a site to run commands on."""

import os
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty folder without LRQ_ variables; give the folder."""
    folder = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("LRQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "140")
    return folder


@pytest.fixture
def lrq(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give a function that runs `lrq` in this process."""
    return Command(capsys)


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give site `paris` as a source without a server."""
    return SourceSite(site)
