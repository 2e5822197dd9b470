"""A running HTTP server for Prometheus: the metrics of one registry, and some pages."""

import threading
from collections.abc import Mapping
from dataclasses import replace

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from lr_server.health_pages import Page, with_pages
from lr_server.metrics.bounded_http import bounded_server
from lr_server.setting_types import metrics_endpoint
from queues.errors import ConfigurationError
from queues.thread_room import end_told


class RegistryServer:
    """A running HTTP server for the metrics of one registry, and for some pages; call `stop` at the end."""

    def __init__(self, address: str, registry: CollectorRegistry, pages: Mapping[str, Page] | None = None) -> None:
        """Listen at *address*, `host:port`.

        Raises `ConfigurationError` if that is impossible, and `UsageError` while Python ends.
        """
        endpoint = metrics_endpoint(address)
        ProcessCollector(registry=registry)
        try:
            app = with_pages(make_wsgi_app(registry), pages or {})
            self._server = bounded_server(endpoint.host, endpoint.port, app)
        except OSError as error:
            raise ConfigurationError(f"cannot serve metrics at {address}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="lrq-metrics", daemon=True)
        try:
            with end_told():
                self._thread.start()
        except BaseException:
            self._server.server_close()
            raise
        #: The address of the server, with port 0 replaced by the real port.
        self.address = replace(endpoint, port=self._server.server_port).address

    def stop(self) -> None:
        """Stop listening, and wait until the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
