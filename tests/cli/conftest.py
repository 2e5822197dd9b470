"""The command line as a function, and sites to try it on."""

import os
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.cli.command import Command
from tests.cli.source import SourceSite


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with no settings around; give the folder."""
    folder = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("LRQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "140")
    return folder


@pytest.fixture
def lrq(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command, run in this process."""
    return Command(capsys)


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give site `paris` as a source without a server."""
    return SourceSite(site)
