"""What `docs/operating.md` says is so."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from lr_server.settings import Settings
from lr_server.telemetry import families
from lrq_cli.main import app

GUIDE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
EMPTY = {
    "site": "paris",
    "server": {"owner": True, "troubles": {}},
    "log": {"seq": 0, "trimmed_seq": 0, "waiting": 0},
    "sessions": [],
    "snapshots": [],
    "receive_queues": [],
}


def test_its_settings_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"LRQ_{name.upper()}", raising=False)
    (written,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "paris.toml").write_text(written)
    settings = Settings.load(tmp_path / "paris.toml")
    assert settings.site_id == "paris"
    assert settings.credentials is not None


def test_it_names_every_metric_and_no_other():
    there = {f"{each.name}_total" if each.type == "counter" else each.name for each in families(EMPTY)}
    assert set(re.findall(r"`(lrq_[a-z_]+)`", GUIDE)) == there | {"lrq_database_up"}


def test_the_commands_it_names_are_there():
    named = set(re.findall(r"(?:`|^)lrq +([a-z]+)", GUIDE, re.MULTILINE))
    assert named <= set(get_command(app).commands)  # type: ignore[attr-defined]
    assert named >= {"init", "serve", "status", "park"}
