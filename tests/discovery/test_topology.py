"""The static topology: the configured sites and their endpoints."""

import pytest

from discovery.topology import Peer, StaticTopology, Topology, peer_of
from queues.errors import ConfigurationError, InvalidNameError
from queues.names import SiteId


def test_a_static_topology_has_the_configured_peers_and_endpoints():
    topology: Topology = StaticTopology({"tokyo": "tcp://10.0.0.2:7400", "lima": "ipc:///run/lima.sock"})
    assert topology.peers() == {"tokyo": Peer("tcp://10.0.0.2:7400"), "lima": Peer("ipc:///run/lima.sock")}
    assert topology.version == 1


def test_the_error_for_an_unknown_site_names_it_and_the_setting():
    with pytest.raises(ConfigurationError, match="site 'tokyo' has no endpoint: add it to the peers"):
        peer_of(StaticTopology({}), SiteId("tokyo"))


def test_a_malformed_site_id_is_refused():
    with pytest.raises(InvalidNameError):
        StaticTopology({"to kyo": "tcp://10.0.0.2:7400"})


def test_snapshots_take_the_way_of_the_log_unless_the_peer_names_another():
    assert Peer("tcp://a:1").for_snapshots == "tcp://a:1"
    assert Peer("tcp://a:1", "tcp://a:2").for_snapshots == "tcp://a:2"
