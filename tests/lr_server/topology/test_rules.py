"""A wrong list of peers is refused as a whole, in one sentence that names the peer and the cure."""

import pytest

from discovery.topology import Peer
from lr_server.topology.rules import OwnSite, checked_peers, is_attached
from queues.errors import LrqError
from queues.names import SiteId

PARIS = OwnSite("paris", ("tcp://0.0.0.0:7400", "ipc:///run/paris.sock", "tcp://10.0.0.1:7500"))


def refusal(peers: dict[str, Peer], own: OwnSite = PARIS) -> str:
    with pytest.raises(LrqError) as found:
        checked_peers(peers, own)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_right_peers_pass_unchanged():
    peers = {
        "tokyo": Peer("local:tokyo, ipc:///run/tokyo.sock, tcp://tokyo:7400, tcp://10.0.0.2:7400"),
        "lima": Peer("tcp://[fd00::1]:7400", "tcp://[fd00::1]:7401"),
        "oslo": Peer("tls://oslo:7400"),
        "rome": Peer("attached:rome, tcp://rome:7400", "attached:rome"),
    }
    assert checked_peers(peers, PARIS._replace(has_tls=True)) == peers


@pytest.mark.parametrize(
    ("peer", "attached"),
    [
        (Peer("attached:tokyo"), True),
        (Peer("tcp://a:1,attached:tokyo"), True),
        (Peer("tcp://a:1", "attached:tokyo"), True),
        (Peer("tcp://a:1", "tcp://a:2"), False),
        (Peer("attached:lima"), False),
    ],
)
def test_a_peer_with_the_endpoint_of_an_attached_site_is_attached(peer: Peer, attached: bool):
    assert is_attached(SiteId("tokyo"), peer) is attached


def test_no_peers_are_right_peers():
    assert checked_peers({}, PARIS) == {}


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        ("http://x", "peers[tokyo]: 'http://x' is not an endpoint: write tcp://host:port, tls://host:port"),
        ("", "peers[tokyo]: '' is not an endpoint: write tcp://host:port"),
        ("tcp://a:1,", "peers[tokyo]: '' is not an endpoint: write tcp://host:port"),
        ("tcp://a:0", "peers[tokyo]: 'tcp://a:0' has no port to connect to: write the port"),
        ("tcp://0.0.0.0:1", "peers[tokyo]: 'tcp://0.0.0.0:1' stands for every address of a machine: write the address"),
        ("tcp://[::]:1", "peers[tokyo]: 'tcp://[::]:1' stands for every address of a machine: write the address"),
        ("tcp://a:1, tcp://A:1", "peers[tokyo]: 'tcp://A:1' is there twice: write each endpoint once"),
        ("local:lima", "peers[tokyo]: local:lima leads to site 'lima': write local:tokyo, or name the other site"),
        ("local:paris", "peers[tokyo]: local:paris leads to site 'paris': write local:tokyo, or name the other site"),
        ("attached:lima", "peers[tokyo]: attached:lima leads to site 'lima': write attached:tokyo, or name the other"),
        ("attached:tokyo,attached:tokyo", "peers[tokyo]: 'attached:tokyo' is there twice: write each endpoint once"),
        ("attached:", "peers[tokyo]: 'attached:' is not an endpoint: "),
        ("tls://a:1", "peers[tokyo]: tls://a:1 needs TLS: set tls_certificate, tls_key and tls_authority, and restart"),
        ("tcp://10.0.0.1:7500", "peers[tokyo]: tcp://10.0.0.1:7500 leads to this site itself: write an endpoint"),
        ("tcp://127.0.0.1:7400", "peers[tokyo]: tcp://127.0.0.1:7400 leads to this site itself: write an endpoint"),
        ("ipc:///run/paris.sock", "peers[tokyo]: ipc:///run/paris.sock leads to this site itself: write an endpoint"),
    ],
)
def test_a_wrong_endpoint_is_refused(endpoint: str, sentence: str):
    assert refusal({"tokyo": Peer(endpoint)}).startswith(sentence)
    with_snapshots = refusal({"tokyo": Peer("tcp://right:7400", endpoint)}) if endpoint else sentence
    assert with_snapshots.startswith(sentence)


def test_the_site_itself_is_no_peer():
    assert refusal({"paris": Peer("tcp://a:1")}) == ("peers names 'paris', which is this site itself: remove that peer")


def test_a_malformed_name_is_refused():
    assert refusal({"to kyo": Peer("tcp://a:1")}).startswith("'to kyo' is not a valid site id")


def test_two_sites_may_share_an_endpoint():
    shared = {"tokyo": Peer("tcp://a:1"), "lima": Peer("tcp://b:1, tcp://a:1", "tcp://a:1")}
    assert checked_peers(shared, PARIS).keys() == {"tokyo", "lima"}


def test_an_endpoint_for_snapshots_needs_a_peer():
    words = "snapshot_endpoints names 'tokyo', which is no peer: add the site to peers"
    assert refusal({"tokyo": Peer("", "tcp://a:1")}) == words


def test_an_endpoint_that_is_no_text_is_refused():
    assert refusal({"tokyo": Peer(7400)}) == "peers[tokyo]: an endpoint must be a text, not int"  # type: ignore[arg-type]
