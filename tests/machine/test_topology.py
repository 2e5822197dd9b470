"""Which sites there are."""

import pytest

from discovery.topology import StaticTopology, Topology
from queues.errors import ConfigurationError, InvalidNameError
from queues.names import SiteId


def test_a_static_topology_tells_what_was_written_down():
    topology: Topology = StaticTopology({"tokyo": "tcp://10.0.0.2:7400", "lima": "ipc:///run/lima.sock"})
    assert topology.peers() == {"tokyo", "lima"}
    assert topology.endpoint(SiteId("lima")) == "ipc:///run/lima.sock"
    assert topology.version == 1


def test_an_unknown_site_is_named_with_what_to_do():
    with pytest.raises(ConfigurationError, match="site 'tokyo' has no endpoint: add it to `peers`"):
        StaticTopology({}).endpoint(SiteId("tokyo"))


def test_a_malformed_site_is_refused():
    with pytest.raises(InvalidNameError):
        StaticTopology({"to kyo": "tcp://10.0.0.2:7400"})
