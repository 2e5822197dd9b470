"""A real Prometheus with the configuration and the rules of `deploy/`, for tests."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.deploy.kit import DEPLOY, prometheus
from tests.waiting import eventually

#: The shortest interval, so that a test waits for no timer.
_INTERVAL = "1s"
_LISTENS = re.compile(r'msg="Listening on" address=(\S+)')


def _is_ready(address: str) -> bool:
    with suppress(HTTPError), urlopen(f"http://{address}/-/ready", timeout=30):
        return True
    return False


@dataclass(frozen=True)
class Prometheus:
    """Answers queries as it does to Grafana."""

    address: str

    def ask(self, path: str, **options: str | Sequence[str]) -> Any:
        """Return the data of one answer of the API."""
        query = urlencode(options, doseq=True)
        with urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression now: each has its labels as `metric` and its `value`."""
        return list(self.ask("query", query=expression)["result"])

    def values_of(self, label: str, series: str) -> list[str]:
        """Return the values of a label, as Grafana fills the choice of a variable."""
        return list(self.ask(f"label/{label}/values", **{"match[]": series}))

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return each alert rule by its name, with its health and its active alerts."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}


@contextmanager
def scraping(targets: Sequence[str], folder: Path) -> Iterator[Prometheus]:
    """Run Prometheus over the *targets* with the files of `deploy/` and short intervals; its files are in *folder*."""
    folder.mkdir()
    written = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    written["global"] = {"scrape_interval": _INTERVAL, "evaluation_interval": _INTERVAL}
    written["scrape_configs"][0]["static_configs"][0]["targets"] = list(targets)
    (folder / "prometheus.yml").write_text(json.dumps(written))
    (folder / "lrq.rules.yml").symlink_to(DEPLOY / "prometheus" / "lrq.rules.yml")
    log = folder / "log"
    with log.open("wb") as stderr:
        command = [prometheus(), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        process = subprocess.Popen(
            [*command, "--web.listen-address=127.0.0.1:0"], cwd=folder, stdout=stderr, stderr=stderr
        )
    try:
        found = eventually(lambda: _LISTENS.search(log.read_text()) or process.poll() is not None)
        assert isinstance(found, re.Match), log.read_text()
        eventually(lambda: _is_ready(found[1]))
        yield Prometheus(found[1])
    finally:
        process.kill()
        process.wait(30)
