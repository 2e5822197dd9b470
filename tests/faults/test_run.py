"""A fault run by hand names the folder that has its databases and logs, unless all was well."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults import run
from tests.faults.rampage import Verdict


def told(capsys: pytest.CaptureFixture[str]) -> Path | None:
    """Return the folder that the run has named."""
    _, found, folder = capsys.readouterr().out.partition("databases and logs: ")
    return Path(folder.strip()) if found else None


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def made(monkeypatch: pytest.MonkeyPatch, judge: Any) -> Verdict:
    monkeypatch.setattr(run, "rampage", judge)
    return run.run("sqlite", seed=1, moments=1, servers=1, lease=1.0, keep=False, ring=False)


def test_a_run_whose_judge_raises_keeps_and_names_its_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(*_: object, **__: object) -> Verdict:
        raise RuntimeError("no verdict")

    with pytest.raises(RuntimeError, match="no verdict"):
        made(monkeypatch, judge)
    folder = told(capsys)
    assert folder is not None
    assert folder.is_dir()


@pytest.mark.parametrize("problems", [[], ["an entry is lost"]])
def test_a_run_with_a_verdict_keeps_its_folder_only_after_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, problems: list[str]
) -> None:
    made(monkeypatch, lambda *_, **__: Verdict(1, "sqlite", problems=problems))
    assert (told(capsys) is not None) == bool(problems)
    assert len(list(tmp_path.glob("lrq-faults-*"))) == len(problems)
