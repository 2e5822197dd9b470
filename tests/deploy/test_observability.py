"""The dashboard and the alert rules name metrics that exist, and Prometheus itself accepts them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery.ring_status import RingStatus
from lr_server.metrics.metrics_server import families
from tests.deploy.kit import DEPLOY, promtool, run
from tests.discovery.statuses import a_server, a_site

RULES = DEPLOY / "prometheus" / "lrq.rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "lrq.tests.yml"
DASHBOARD = DEPLOY / "grafana" / "lrq.json"
NAME = re.compile(r"\blrq_[a-z_]+\b")


def exported() -> set[str]:
    """Return the names of all samples of a server."""
    found = {"lrq_database_up"}
    for family in families(a_site(server=a_server(ring=RingStatus(0, "leading", held=(0, 1, 1))))):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
        found |= {family.name + ending for ending in endings}
    return found


def panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("file", [RULES, RULE_TESTS, DASHBOARD], ids=lambda path: path.name)
def test_every_metric_that_a_file_names_is_exported(file: Path):
    named = set(NAME.findall(file.read_text()))
    assert named
    assert named - exported() == set()


def test_every_metric_with_an_alert_in_the_guide_has_a_rule_or_stands_on_the_dashboard():
    guide = (DEPLOY.parent / "docs" / "operating.md").read_text()
    rows = re.findall(r"^\| `(lrq_[a-z_]+)` \|", guide, re.MULTILINE)
    ruled = NAME.findall(RULES.read_text()) + NAME.findall(DASHBOARD.read_text())
    watched = {re.sub(r"_bucket$", "", name) for name in ruled}
    # The number of servers that run on purpose is known to the operator only.
    assert set(rows) - watched == {"lrq_servers"}


def test_every_alert_has_a_severity_a_summary_and_a_sentence():
    alerts = re.split(r"^      - alert: ", RULES.read_text(), flags=re.MULTILINE)[1:]
    names = [alert.partition("\n")[0] for alert in alerts]
    assert len(names) == len(set(names)) == 24
    for alert in alerts:
        assert re.search(r"labels: \{severity: (critical|warning)\}", alert)
        assert re.search(r"summary: \".+\"\n +description: \".+\.\"\n", alert)


def test_promtool_accepts_the_rules():
    done = run(promtool(), "check", "rules", RULES)
    assert done.returncode == 0, done.stdout
    assert "24 rules found" in done.stdout


def test_the_rules_fire_and_rest_as_promtool_plays_them():
    done = run(promtool(), "test", "rules", RULE_TESTS)
    assert done.returncode == 0, done.stdout
    assert "SUCCESS" in done.stdout


def test_promtool_accepts_every_expression_of_the_dashboard(tmp_path: Path):
    values = {"$site": ".*", "$client": ".*", "$__rate_interval": "5m"}
    rules = []
    for number, expression in enumerate(expressions()):
        for variable, value in values.items():
            expression = expression.replace(variable, value)
        rules.append({"record": f"panel:{number}", "expr": expression})
    # JSON is YAML.
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = run(promtool(), "check", "rules", tmp_path / "panels.yml")
    assert done.returncode == 0, done.stdout
    assert f"{len(rules)} rules found" in done.stdout


def test_the_panels_have_titles_words_and_places_of_their_own():
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_the_dashboard_names_no_data_source_of_its_own():
    sources = {panel["datasource"]["uid"] for panel in panels() if "datasource" in panel}
    assert sources == {"${datasource}"}
