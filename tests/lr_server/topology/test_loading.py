"""The setting `topology` names a provider: by module and name, or by an entry point of an installed package."""

import sys
from pathlib import Path

import pytest

from lr_server import PeerList
from lr_server.topology.loading import GROUP, check_name, third_party
from queues.errors import ConfigurationError

APPLICATION = """
from lr_server import PeerList

class Directory:
    def read(self):
        return PeerList({"tokyo": "tcp://10.0.0.2:7400"}, version=7)

made = Directory()
nothing = object()

def directory():
    return Directory()

def broken():
    raise RuntimeError("no token")

class Greedy:
    def __init__(self, address): ...
    def read(self): ...
"""
TOKYO = PeerList({"tokyo": "tcp://10.0.0.2:7400"}, version=7)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install distributions with the application's module; give the folder of packages."""
    (tmp_path / "place_of_peers.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "place_of_peers", raising=False)
    install(tmp_path, "consul-for-lrq", "consul = place_of_peers:Directory", "gone = place_of_peers:lost")
    return tmp_path


def install(folder: Path, name: str, *points: str) -> None:
    facts = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points, ""]))


def refusal(topology: str) -> str:
    with pytest.raises(ConfigurationError) as found:
        third_party(topology)
    return str(found.value)


@pytest.mark.parametrize("name", ["made", "directory", "Directory"])
def test_an_object_a_function_and_a_class_of_a_module_give_a_provider(name: str):
    assert third_party(f"place_of_peers:{name}").read() == TOKYO


def test_an_entry_point_of_an_installed_distribution_gives_a_provider():
    assert third_party("consul").read() == TOKYO


@pytest.mark.parametrize(
    ("topology", "sentence"),
    [
        ("consol", "there is no topology 'consol': did you mean 'consul'?"),
        ("zookeeper", 'there is no topology \'zookeeper\': write "file", "table", module:name, or the name of an'),
        ("gone", "topology 'gone' of consul-for-lrq cannot be loaded (AttributeError: "),
        ("place_of_peers:mad", "topology: place_of_peers:mad does not exist, there is no 'mad' in "),
        ("place_of_beers:made", "topology: there is no module place_of_beers in "),
        ("place_of_peers:nothing", "topology 'place_of_peers:nothing' is no provider, since it has no method `read`"),
        ("place_of_peers:broken", "topology 'place_of_peers:broken' cannot be made (RuntimeError: no token)"),
        ("place_of_peers:Greedy", "topology 'place_of_peers:Greedy' cannot be made (TypeError: "),
    ],
)
def test_a_topology_that_cannot_be_found_is_refused(topology: str, sentence: str):
    assert refusal(topology).startswith(sentence)


def test_two_packages_with_one_name_are_refused(installed: Path):
    install(installed, "other-consul", "consul = place_of_peers:directory")
    words = "topology 'consul' is in several packages (consul-for-lrq, other-consul): write module:name instead"
    assert refusal("consul") == words


@pytest.mark.parametrize("topology", ["file", "table", "consul", "a.b:c.d"])
def test_a_name_is_checked_without_an_import(topology: str):
    check_name(topology)


@pytest.mark.parametrize("topology", ["", " file", "a:", ":b", "a b:c"])
def test_a_malformed_name_is_refused(topology: str):
    with pytest.raises(ConfigurationError):
        check_name(topology)


def test_the_names_of_the_protocol_are_public():
    import lr_server

    assert {"TopologyProvider", "PeerList"} <= set(lr_server.__all__)
