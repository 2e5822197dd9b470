"""A server beside the leader passes requests on, or tells at once why it cannot."""

import socket

import pytest

from lr_server.ingest import forwarding


@pytest.mark.timeout(60)
def test_a_leader_that_has_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    # With this patience the test would run into its own limit.
    monkeypatch.setattr(forwarding, "_CONNECT", 600.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        told = forwarding.open_upstream(endpoint, None)
    assert told == f"the server that stores requests, at {endpoint}, cannot be reached from here"


def test_a_malformed_endpoint_is_told():
    assert "nowhere" in str(forwarding.open_upstream("nowhere", None))
