"""The static topology: the configured sites and their endpoints."""

import pytest

from discovery.topology import StaticTopology, Topology
from queues.errors import ConfigurationError, InvalidNameError
from queues.names import SiteId


def test_a_static_topology_has_the_configured_peers_and_endpoints():
    topology: Topology = StaticTopology({"tokyo": "tcp://10.0.0.2:7400", "lima": "ipc:///run/lima.sock"})
    assert topology.peers() == {"tokyo", "lima"}
    assert topology.endpoint(SiteId("lima")) == "ipc:///run/lima.sock"
    assert topology.version == 1


def test_the_error_for_an_unknown_site_names_it_and_the_setting():
    with pytest.raises(ConfigurationError, match="site 'tokyo' has no endpoint: add it to `peers`"):
        StaticTopology({}).endpoint(SiteId("tokyo"))


def test_a_malformed_site_id_is_refused():
    with pytest.raises(InvalidNameError):
        StaticTopology({"to kyo": "tcp://10.0.0.2:7400"})
