"""A real Prometheus fetches the metrics of real servers, fills each panel of the dashboard, and evaluates the rules.

Paris sends to Tokyo. Hub is a ring of three servers, and of the ring Yard only one member runs.
"""

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import queues
from lr_client import RoutingQueueSenderClient, listener, subscribe
from tests.deploy.kit import DEPLOY
from tests.deploy.prometheus_server import Prometheus, scraping
from tests.lrq.cli.command import Served, served
from tests.system.ring_servers import RingServers
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

#: The values in place of the variables of Grafana, for all sites and clients.
VARIABLES = {"$site": ".*", "$client": ".*", "$__rate_interval": "1m"}
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "lrq.json").read_text())
EXPRESSIONS = [(panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel.get("targets", ())]
#: Seconds until Prometheus has fetched and evaluated a fact, on a busy machine.
PATIENCE = 60


@dataclass
class Watched:
    """The servers that the tests stop, and the Prometheus that watches all sites."""

    paris: Served
    tokyo: Served
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        tokyo = stack.enter_context(site("tokyo", folder, "--listen", "tcp://127.0.0.1:0"))
        peer = f"tokyo={tokyo.facts['endpoints'][0]}"
        paris = stack.enter_context(site("paris", folder, "--peer", peer, initial_sync="log"))
        sink = queues.create_engine(f"sqlite:///{folder / 'tokyo.db'}")
        stack.callback(sink.dispose)
        stack.enter_context(subscribe(sink, refuse_poison, on_failure="park", max_tries=1))
        source = queues.create_engine(f"sqlite:///{folder / 'paris.db'}")
        stack.callback(source.dispose)
        client = RoutingQueueSenderClient("policy")
        for payload, destination in ((b"good", "tokyo"), (b"poison", "tokyo"), (b"for no peer", "tokio")):
            with Session(source) as session, session.begin():
                client.transmit_log_entry_message(session, payload, [destination])
        targets = [each.facts["metrics"] for each in (paris, tokyo)]
        targets += [*members("hub", folder, stack, 0, 1, 2), *members("yard", folder, stack, 0)]
        yield Watched(paris, tokyo, stack.enter_context(scraping(targets, folder / "prometheus")))


def site(name: str, folder: Path, *options: str, **settings: str) -> Any:
    """Serve a new site with a page of metrics."""
    (folder / name).mkdir()
    settings["metrics"] = "127.0.0.1:0"
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
    (folder / name / "lrq.toml").write_text("".join(lines))
    place = ["--site", name, "--database", f"sqlite:///{folder / name}.db"]
    return served("--init", *place, *options, folder=folder / name)


def members(name: str, folder: Path, stack: ExitStack, *ranks: int) -> list[str]:
    """Begin members of a new ring; return the places of their metrics."""
    (folder / name).mkdir()

    def new_site(site: str) -> Engine:
        engine = queues.create_engine(f"sqlite:///{folder / name / secrets.token_hex(4)}.db")
        stack.callback(engine.dispose)
        queues.initialize(engine, site_id=site)
        return engine

    # A Unix socket needs a short path.
    sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ring")))
    ring = RingServers(new_site, sockets, site=name, metrics="127.0.0.1:0")
    stack.callback(ring.close)
    ring.begin(*ranks)
    return [str(ring.servers[rank].status()["server"]["metrics"]) for rank in ranks]


@listener("policy")
def refuse_poison(session: Any, source_id: str, entries: Any) -> None:
    """Refuse one entry, which is then parked."""
    if any(entry.opaque_payload == b"poison" for entry in entries):
        raise ValueError("poison")


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_each_panel_of_the_dashboard_shows_data_of_running_sites(watched: Watched, title: str, expression: str):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert eventually(lambda: watched.prometheus.query(expression), timeout=PATIENCE), title


@pytest.mark.parametrize(("name", "values"), [("site", ["hub", "paris", "tokyo", "yard"]), ("client", ["policy"])])
def test_the_choices_of_the_dashboard_are_the_sites_and_clients(watched: Watched, name: str, values: list[str]):
    (variable,) = [each for each in BOARD["templating"]["list"] if each["name"] == name]
    series, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
    wanted = series.replace("$site", ".*")
    eventually(lambda: watched.prometheus.values_of(label, wanted) == values, timeout=PATIENCE)


def test_every_rule_is_evaluated_and_a_parked_entry_fires_its_own(watched: Watched):
    def firing() -> bool:
        parked = watched.prometheus.rules()["LrqParkedEntries"]
        return parked["state"] == "firing"

    eventually(firing, timeout=PATIENCE)
    rules = watched.prometheus.rules()
    assert {name: rule.get("lastError") for name, rule in rules.items() if rule["health"] != "ok"} == {}
    (alert,) = rules["LrqParkedEntries"]["alerts"]
    assert alert["labels"].items() >= {"site": "tokyo", "client": "policy", "source": "paris"}.items()
    assert alert["annotations"]["summary"] == "1 entries of policy are parked at tokyo"


def test_an_entry_for_a_misspelt_site_starts_the_clock_of_its_alert(watched: Watched):
    def pending() -> list[dict[str, Any]]:
        return list(watched.prometheus.rules()["LrqUnknownDestination"]["alerts"])

    (alert,) = eventually(pending, timeout=PATIENCE)
    assert alert["labels"]["destination"] == "tokio"


def test_servers_that_have_gone_are_missed(watched: Watched):
    eventually(lambda: watched.prometheus.query('lrq_owner{site="paris"}'), timeout=PATIENCE)
    watched.paris.process.kill()

    def missed() -> list[dict[str, Any]]:
        return list(watched.prometheus.rules()["LrqSiteSilent"]["alerts"])

    (alert,) = eventually(missed, timeout=PATIENCE)
    assert alert["labels"]["site"] == "paris"
