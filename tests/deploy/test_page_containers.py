"""docs/deploy.md for containers: each file, variable, port, service, image and option fits the kit and the code."""

import itertools
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lr_server import Settings
from tests.deploy.kit import DEPLOY, ROOT
from tests.deploy.page import ON_COMPOSE, ON_PODMAN, PAGE
from tests.deploy.test_containers import COMPOSE, CONTAINERFILE
from tests.house.test_short_pages import unknown


def given(words: list[str], option: str) -> list[str]:
    """Return the values of an option that may be repeated."""
    return [value for name, value in itertools.pairwise(words) if name == option]


def image_commands() -> Mapping[str, list[str]]:
    """Return the commands of the table at the head of the page, by their folders in the kit."""
    rows = re.findall(r"^\| `deploy/(\S+)` \|.*\| .*?`(.+)` \|$", PAGE, re.MULTILINE)
    return {folder: shlex.split(command) for folder, command in rows}


def test_every_place_of_the_table_exists():
    begin = image_commands()
    assert begin.keys() == {"systemd", "container", "compose", "helm/lrq", "prometheus", "grafana"}
    for folder, words in begin.items():
        assert (DEPLOY / folder).is_dir()
        for word in words:
            assert not word.startswith("deploy/") or (ROOT / word).exists(), word


def test_podman_runs_the_image_that_the_table_builds():
    (built,) = given(image_commands()["container"], "-t")
    words = shlex.split(ON_PODMAN[0])
    assert words[:2] == ["podman", "run"]
    image = words.index(built)
    assert re.search(r'^ENTRYPOINT \["lrq"\]$', CONTAINERFILE, re.MULTILINE)
    assert not unknown(shlex.join(["lrq", *words[image + 1 :]]))
    # The options before the image are those that this test reads.
    assert [word for word in words[2:image] if word.startswith("-")] == ["--rm", "-e", "-e", "-e", "-e", "-p"]


def test_the_variables_and_the_port_of_podman_fit_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    words = shlex.split(ON_PODMAN[0])
    monkeypatch.chdir(tmp_path)
    (metrics,) = re.findall(r"LRQ_METRICS=(\S+)", CONTAINERFILE)
    variables = dict(each.split("=", 1) for each in given(words, "-e") if "=" in each) | {"LRQ_METRICS": metrics}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()  # a variable that is no setting is refused
    assert settings.site_id == "paris"
    (outside, inside) = given(words, "-p")[0].split(":")
    assert [f"tcp://0.0.0.0:{inside}"] == list(settings.listen)
    assert outside == inside
    (exposed,) = re.findall(r"^EXPOSE (.+)$", CONTAINERFILE, re.MULTILINE)
    assert {inside, metrics.rpartition(":")[2]} == set(exposed.split())
    assert f"Port {metrics.rpartition(':')[2]} serves" in PAGE


def test_compose_has_the_file_the_password_and_the_service_of_the_page():
    export, up, inside = map(shlex.split, ON_COMPOSE)
    variable, _, password = export[1].partition("=")
    assert password
    needed = re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose" / "compose.yaml").read_text())
    assert set(needed) == {variable}
    for words in (up, inside, image_commands()["compose"]):
        assert words[:3] == ["docker", "compose", "-f"]
        assert ROOT / words[3] == DEPLOY / "compose" / "compose.yaml"
    assert up[4:] == ["up", "--build", "--detach"]
    verb, service, *command = inside[4:]
    assert verb == "exec"
    assert not unknown(shlex.join(command))
    assert COMPOSE["services"][service]["environment"]["LRQ_SITE_ID"] == service


def test_compose_builds_and_names_the_image_of_the_page():
    (built,) = given(image_commands()["container"], "-t")
    (file,) = given(image_commands()["container"], "-f")
    sites = [each for each in COMPOSE["services"].values() if "build" in each]
    assert len(sites) == 3
    for each in sites:
        assert each["image"] == built
        context = DEPLOY / "compose" / each["build"]["context"]
        assert (context / each["build"]["dockerfile"]).resolve() == (ROOT / file).resolve()


def test_the_profile_of_the_page_has_prometheus_and_grafana():
    (profile,) = re.findall(r"The profile `(\w+)` adds Prometheus with\s+the alert rules, and Grafana", PAGE)
    profiled: dict[str, Any] = {
        name: each for name, each in COMPOSE["services"].items() if profile in each.get("profiles", ())
    }
    assert profiled.keys() == {"prometheus", "grafana"}
    assert any("lrq.rules.yml" in volume for volume in profiled["prometheus"]["volumes"])
    assert any("lrq.json" in volume for volume in profiled["grafana"]["volumes"])
