"""The roles of a server: a part of the work that cannot begin leaves nothing behind."""

import threading

import pytest
from sqlalchemy import Engine

from discovery.topology import StaticTopology
from lr_server.connections import open_engines
from lr_server.settings import Settings
from lr_server.site_roles import SiteRoles
from lr_server.source.source import Source
from queues.clock import SYSTEM_CLOCK
from tests.leading import lead


def threads_of_lrq() -> set[threading.Thread]:
    """Return the threads of lrq; gRPC may start some for channels of earlier tests."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("lrq-")}


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_source_that_cannot_begin_leaves_no_thread(site: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(site_id="paris", database_url=site.url.render_as_string(hide_password=False))
    engines = open_engines(settings.database_url, "paris", settings.max_connections, settings.lease_seconds)
    before = threads_of_lrq()

    def fail(_: Source) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Source, "start", fail)
    roles = SiteRoles(engines, settings, StaticTopology({}), clock=SYSTEM_CLOCK, endpoints=tuple)
    [lease] = lead(site)
    try:
        with pytest.raises(RuntimeError, match="new thread"):
            roles._lead({0: lease})
        assert roles.source is None
        assert threads_of_lrq() <= before
    finally:
        engines.dispose()
