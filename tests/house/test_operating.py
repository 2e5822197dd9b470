"""The statements of `docs/operating.md` are true."""

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from typer.main import get_command

from lr_server.metrics.metrics_server import families
from lr_server.protocol.negotiation import without_provider
from lr_server.settings import Settings
from lrq.cli.main import app
from queues.database import schema
from queues.errors import SchemaMismatchError
from queues.names import ClientName
from tests.discovery.statuses import a_site
from tests.house.page_blocks import take

(SETTINGS,) = take(__name__, "docs/operating.md", "toml")
(NOT_READY,) = take(__name__, "docs/operating.md", "json")
(UNPROVIDED,) = take(__name__, "docs/operating.md", "text")
GUIDE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()


def test_the_settings_in_the_guide_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"LRQ_{name.upper()}", raising=False)
    (tmp_path / "paris.toml").write_text(SETTINGS)
    settings = Settings.load(tmp_path / "paris.toml")
    assert settings.site_id == "paris"
    assert settings.credentials is not None


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_shown_trouble_of_health_is_that_of_earlier_tables(site: Engine):
    with site.begin() as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = '0001'"))
    with pytest.raises(SchemaMismatchError) as told:
        schema.require(site)
    assert json.loads(re.sub(r"needs \d+", f"needs {schema.SCHEMA}", NOT_READY)) == {
        "ready": False,
        "troubles": {"database": str(told.value)},
    }


def test_the_shown_sentence_about_a_missing_provider_is_that_of_the_status():
    shown = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", UNPROVIDED.strip()))
    assert re.fullmatch(shown, without_provider(ClientName("policy")))


def test_the_guide_names_every_metric_and_no_other():
    there = {f"{each.name}_total" if each.type == "counter" else each.name for each in families(a_site())}
    assert set(re.findall(r"`(lrq_[a-z_]+)`", GUIDE)) == there | {"lrq_database_up"}


def test_the_commands_in_the_guide_exist():
    named = set(re.findall(r"(?:`|^)lrq +([a-z]+)", GUIDE, re.MULTILINE))
    assert named <= set(get_command(app).commands)  # type: ignore[attr-defined]
    assert named >= {"init", "serve", "status", "park"}
