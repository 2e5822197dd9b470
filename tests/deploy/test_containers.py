"""The image, the compose file and the chart fit the code: packages, settings, pages and metrics."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import lrq_packages
from lr_server.health_pages import LIVE, READY
from lr_server.settings import Settings
from tests.deploy.kit import DEPLOY, ROOT, helm, promtool, run

CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
CHART = DEPLOY / "helm" / "lrq"
SITES = ("paris", "tokyo", "lima")
#: Values with one of each kind of setting.
VALUES: dict[str, Any] = {
    "site": "paris",
    "database": {"url": "postgresql+psycopg://lrq:secret@db/app"},
    "peers": {"tokyo": "tls://tokyo.example:7400"},
    "tls": {"existingSecret": "paris-tls"},
    "settings": {
        "retention_seconds": 259200,
        "idle_poll_seconds": 0.5,
        "clients": ["policy"],
        "initial_sync": "log",
        "ingest": True,
        "producers": {"meter-*": {"clients": ["policy"], "destinations": ["tokyo"]}},
    },
}


# --- the image


def test_the_image_has_every_part_of_the_wheel():
    copied = set(re.findall(r"^COPY (\w+) \1$", CONTAINERFILE, re.MULTILINE))
    assert copied == {"alembic", *(name.partition(".")[0] for name in lrq_packages.PACKAGES)}
    (files,) = re.findall(r"^COPY (.+) \./$", CONTAINERFILE, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert set(files.split()) == needed | {f"{name}.py" for name in project["tool"]["setuptools"]["py-modules"]}


def test_the_extras_of_the_image_exist():
    (extras,) = re.findall(r"^ARG EXTRAS=(.+)$", CONTAINERFILE, re.MULTILINE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)


def test_the_image_runs_as_a_numeric_user_and_asks_its_own_page():
    assert re.search(r"^USER 10001:10001$", CONTAINERFILE, re.MULTILINE)
    assert f"http://127.0.0.1:9464{LIVE}" in CONTAINERFILE
    assert "LRQ_METRICS=0.0.0.0:9464" in CONTAINERFILE


# --- compose


@pytest.mark.parametrize("site", SITES)
def test_the_variables_of_a_site_are_settings(site: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    service = COMPOSE["services"][site]
    monkeypatch.chdir(tmp_path)
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert settings.site_id == site
    assert settings.database_url.endswith(f"@database/{site}")
    assert dict(settings.peers) == {other: f"tcp://{other}:7400" for other in SITES if other != site}
    assert READY in service["healthcheck"]["test"][-1]


def test_each_site_has_a_database():
    made = re.findall(r"^CREATE DATABASE (\w+);", (DEPLOY / "compose" / "databases.sql").read_text(), re.MULTILINE)
    first = COMPOSE["services"]["database"]["environment"]["POSTGRES_DB"]
    assert {first, *made} == set(SITES)


def test_every_file_that_compose_mounts_exists():
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / "compose" / source).exists(), volume


def test_no_password_stands_in_the_compose_file():
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or value.startswith("${LRQ_DB_PASSWORD:?")


def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path):
    shutil.copy(DEPLOY / "compose" / "prometheus.yml", tmp_path)
    shutil.copy(DEPLOY / "prometheus" / "lrq.rules.yml", tmp_path)
    done = run(promtool(), "check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout


# --- the chart


def templates() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}


def test_every_value_that_the_chart_uses_has_a_default():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, text in templates().items():
        for used in re.findall(r"\.Values\.([\w.]+)", text):
            at = values
            for part in used.split("."):
                assert part in at, f"{name}: .Values.{used}"
                at = at[part]


def test_the_probes_of_the_chart_ask_pages_that_exist():
    text = templates()["statefulset.yaml"]
    probes = dict(re.findall(r"(\w+)Probe:\n +httpGet: \{path: (\S+), port: metrics\}", text))
    assert probes == {"startup": LIVE, "liveness": LIVE, "readiness": READY}


def rendered(tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "values.yaml").write_text(json.dumps(VALUES))
    done = run(helm(), "template", "paris", CHART, "--values", tmp_path / "values.yaml")
    assert done.returncode == 0, done.stdout
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_helm_accepts_the_chart(tmp_path: Path):
    (tmp_path / "values.yaml").write_text(json.dumps(VALUES))
    done = run(helm(), "lint", "--strict", CHART, "--values", tmp_path / "values.yaml")
    assert done.returncode == 0, done.stdout


def test_the_rendered_settings_are_accepted(tmp_path: Path):
    (made,) = [each for each in rendered(tmp_path) if each["kind"] == "ConfigMap"]
    (tmp_path / "lrq.toml").write_text(made["data"]["lrq.toml"])
    settings = Settings.load(tmp_path / "lrq.toml", database_url="sqlite:///paris.db")
    assert (settings.site_id, dict(settings.peers)) == ("paris", VALUES["peers"])
    assert (settings.retention_seconds, settings.idle_poll_seconds) == (259200, 0.5)
    assert settings.tls_verify_site
    assert {name: (*rule.clients, *rule.destinations) for name, rule in settings.producers.items()} == {
        "meter-*": ("policy", "tokyo")
    }


def test_a_password_stands_in_a_secret_only(tmp_path: Path):
    assert [each["kind"] for each in rendered(tmp_path) if "secret@db" in json.dumps(each)] == ["Secret"]
