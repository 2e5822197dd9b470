"""The table `[ring]` in the words of people: names of members, the name of the ring, and a folder."""

from pathlib import Path
from typing import Any

import pytest

from discovery.site_file import read_site_file
from lr_server import Settings
from queues.errors import ConfigurationError

MEMBERS = {"hub-1": "ipc:///run/1", "hub-2": "ipc:///run/2", "hub-3": "ipc:///run/3"}
NAMED: dict[str, Any] = {"member": "hub-2", "members": MEMBERS, "witness": "/mnt/paris.witness"}


def settings(ring: dict[str, Any], **options: Any) -> Settings:
    options = {"listen": [MEMBERS["hub-2"]], "ingest": True, "producers": {"*": {}}, **options}
    return Settings(ring=ring, **options)


def test_a_member_has_the_rank_of_its_name():
    ring = settings(NAMED, site_id="paris", database_url="sqlite:///paris.db").ring
    assert ring is not None
    assert (ring.rank, list(ring.members), list(ring.names)) == (1, list(MEMBERS.values()), list(MEMBERS))
    assert ring.shown(0) == "rank 0 (hub-1)"
    assert [ring.rank_of(text) for text in ("hub-3", "0", "ipc:///run/2")] == [2, 0, 1]
    with pytest.raises(ConfigurationError, match="no member 'hub-4': name one of hub-1, hub-2, hub-3"):
        ring.rank_of("hub-4")


def test_a_name_counts_before_a_rank():
    ring = {**NAMED, "member": "1", "members": dict(zip("120", MEMBERS.values(), strict=True))}
    made = settings(ring, site_id="paris", database_url="sqlite:///paris.db", listen=["ipc:///run/1"]).ring
    assert made is not None
    assert [made.rank_of(name) for name in "120"] == [0, 1, 2]


def test_the_name_and_the_folder_of_a_ring_stand_for_the_site_and_its_database():
    made = settings({**NAMED, "name": "paris", "folder": "/var/lib/lrq"})
    assert (made.site_id, made.database_url) == ("paris", "sqlite:////var/lib/lrq/paris.db")
    assert settings({**NAMED, "folder": "."}, site_id="paris").database_url == "sqlite:///paris.db"


def test_commands_read_the_same_place_from_the_file(tmp_path: Path):
    file = tmp_path / "lrq.toml"
    file.write_text(f'[ring]\nname = "paris"\nfolder = "{tmp_path}"\nmember = "a"\nmembers = {{ a = "ipc:///a" }}\n')
    read = read_site_file(file)
    assert (read["site_id"], read["database_url"]) == ("paris", f"sqlite:///{tmp_path}/paris.db")
    assert read["ring"] == {"member": "a", "members": {"a": "ipc:///a"}}


@pytest.mark.parametrize(
    ("ring", "options", "words"),
    [
        ({"member": "hub-9"}, {}, "ring.member is 'hub-9': write the name of this server, hub-1 or hub-2 or hub-3"),
        ({"member": ""}, {}, "ring.member is '': write the name of this server"),
        ({"member": 2}, {}, "ring.member must be a string, not int"),
        ({"rank": 0}, {}, "ring.member hub-2 has rank 1, but ring.rank is 0: write one"),
        ({"members": list(MEMBERS.values())}, {}, "ring.member is a name: write `members` as a table of names"),
        ({"members": {**MEMBERS, "hub-4": "ipc:///4"}}, {}, "ring.members: write at most 3 values, not 4"),
        (
            {"members": {"a b": "ipc:///1", "hub-2": "ipc:///2", "hub-3": "ipc:///3"}},
            {},
            "ring.members: the name 'a b' is not a valid site id",
        ),
        ({"name": "rome"}, {}, "site_id is 'paris', but ring.name stands for 'rome': write one of them"),
        ({"folder": "/x"}, {}, "database_url is 'sqlite:///paris.db', but ring.folder stands for 'sqlite:////x/paris"),
        ({"folder": 1}, {}, "ring.folder must be a string, not int"),
        ({"folder": "/x"}, {"site_id": None}, "write site_id or ring.name"),
        ({"member": "", "members": list(MEMBERS.values()), "rank": 1, "names": ["a"]}, {}, "not three different names"),
    ],
)
def test_a_contradiction_is_one_sentence(ring: dict[str, Any], options: dict[str, Any], words: str):
    options = {"site_id": "paris", "database_url": "sqlite:///paris.db", **options}
    with pytest.raises(ConfigurationError, match=words):
        settings({**NAMED, **ring}, **options)
