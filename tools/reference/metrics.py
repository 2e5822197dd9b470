"""The reference of all metrics: as Prometheus reads them from a server and from `lrq work`."""

from collections.abc import Iterable
from urllib.request import urlopen

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from discovery.log_status import UnknownStatus
from discovery.server_status import IngestStatus
from lr_server.metrics.metrics_server import MetricsServer
from lr_server.metrics.registry_server import RegistryServer
from lrq.cli.worker_metrics import ClientCounter, WorkerMetrics
from queues.database.standby_facts import StandbyFacts
from queues.names import ClientName, SiteId
from tests.discovery.statuses import a_log, a_queue, a_server, a_session, a_site, a_snapshot
from tools.reference.tables import table

#: A site in which each part of a status stands once, so that each metric shows its labels.
_UNKNOWN = UnknownStatus(ClientName("policy"), SiteId("oslo"), entries=1, more=False, oldest_seconds=1.0, dropped=0)
_SITE = a_site(
    log=a_log(unknown=(_UNKNOWN,)),
    sessions=(a_session(),),
    snapshots=(a_snapshot(),),
    receive_queues=(a_queue(),),
    server=a_server(ingest=IngestStatus(refusals={"GAP": 1})),
    standbys=StandbyFacts(asked=1, present=1),
)


def metrics() -> str:
    """Return a table of the server's metrics, and one of the metrics of `lrq work`."""
    return f"## Of a server\n\n{_table(server_metrics())}\n## Of `lrq work`\n\n{_table(worker_metrics())}"


def server_metrics() -> list[Metric]:
    """Return each metric of a server, sorted by name."""
    return _read(MetricsServer("127.0.0.1:0", lambda: _SITE))


def worker_metrics() -> list[Metric]:
    """Return each metric of a worker that has applied one batch and refused another."""
    made = WorkerMetrics()
    made.show_active("policy", lambda: True)
    counter = ClientCounter(made, "policy")
    counter.applied("paris", 1, 0.1)
    counter.failed("paris", ValueError())
    return _read(made.serve("127.0.0.1:0"))


def full_name(metric: Metric) -> str:
    """Return the name by which Prometheus stores *metric*."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _read(server: RegistryServer) -> list[Metric]:
    try:
        with urlopen(f"http://{server.address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.stop()
    found = [each for each in text_string_to_metric_families(text) if each.name.startswith("lrq_")]
    return sorted((each for each in found if not each.name.endswith("_created")), key=full_name)


def _table(found: Iterable[Metric]) -> str:
    rows = [(f"`{full_name(each)}`", each.type, _labels(each), each.documentation) for each in found]
    return table(("metric", "type", "labels", "meaning"), rows)


def _labels(metric: Metric) -> str:
    names = {name for sample in metric.samples for name in sample.labels if name not in ("le", "quantile")}
    return ", ".join(f"`{name}`" for name in sorted(names))
