"""`lrq ring plan` and `lrq ring resize`: the settings of several rings, and the way to twice as many."""

import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lr_server import Settings
from lr_server.ring_setting import RingSetting
from lrq.cli.ring.plan import layout_of
from queues.errors import ConfigurationError
from tests.lrq.cli.command import Command, Done

MACHINES = ("a", "b", "c")

#: Runs `lrq ring` beside a file with the given settings.
Run = Callable[..., Done]


def written(site: str, rings: int, members: list[str], rank: int = 0) -> str:
    return (
        f'site_id = "{site}"\ndatabase_url = "sqlite:////data/{site}-log.db"\nlisten = ["{members[rank]}"]\n'
        f'ingest = true\n[producers."*"]\n[ring]\nmembers = {members}\nrank = {rank}\nrings = {rings}\n'
        f'witness = "/other/{site}-proof"\n'
    )


@pytest.fixture
def run(lrq: Command, tmp_path: Path) -> Run:
    def ring(*words: str, file: str) -> Done:
        (tmp_path / "lrq.toml").write_text(file)
        return lrq("ring", *words, "--config", str(tmp_path / "lrq.toml"))

    return ring


FIRST = [f"tcp://{machine}:7400" for machine in MACHINES]


def settings_of(member: dict[str, Any]) -> Settings:
    """Return the settings of a planned member, which a server accepts."""
    return Settings(**tomllib.loads(member["settings"]), ingest=True, producers={"*": {}})


def test_each_machine_leads_one_of_three_rings_and_follows_two(run: Run):
    planned = run("plan", "--json", file=written("paris-0", 3, FIRST)).json
    made = [settings_of(each) for each in planned["members"]]
    assert [each.site_id for each in made] == ["paris-0"] * 3 + ["paris-1"] * 3 + ["paris-2"] * 3
    ranks: dict[str, list[int]] = {machine: [] for machine in MACHINES}
    for each in made:
        assert each.ring is not None
        (own,) = each.listen
        assert own == each.ring.members[each.ring.rank]
        host, port = own.removeprefix("tcp://").split(":")
        assert int(port) == 7400 + each.ring.share(each.site_id).number
        ranks[host].append(each.ring.rank)
    assert {host: sorted(found) for host, found in ranks.items()} == {host: [0, 1, 2] for host in MACHINES}
    files = Counter(each.database_url for each in made) + Counter(str(each.ring.witness) for each in made if each.ring)
    assert files == {
        f"{folder}/{name}": 3
        for folder, names in {
            "sqlite:////data": ("paris-0-log.db", "paris-1.db", "paris-2.db"),
            "/other": ("paris-0-proof", "paris-1.witness", "paris-2.witness"),
        }.items()
        for name in names
    }


@pytest.mark.parametrize("rings", [3, 6])
def test_the_settings_of_any_ring_lead_to_the_same_plan(rings: int):
    first = layout_of("paris-0", setting(FIRST, rings))
    for number in range(rings):
        members = [*first.members(number)[0].members]
        assert layout_of(f"paris-{number}", setting(members, rings)) == first
    sockets = ["ipc:///run/a", "ipc:///run/b-0", "ipc:///run/c"]
    again = layout_of("paris-0", setting(sockets, rings))
    assert again.members(2)[0].members == ("ipc:///run/c-2", "ipc:///run/a-2", "ipc:///run/b-0-2")
    assert layout_of("paris-2", setting([*again.members(2)[0].members], rings)) == again


def setting(members: list[str], rings: int) -> RingSetting:
    return RingSetting(members=members, rank=0, witness=Path("w"), rings=rings)


def test_the_settings_of_all_rings_keep_the_number_of_acknowledging_followers(run: Run):
    file = written("paris-0", 3, FIRST)
    told = run("plan", "--json", file=file + "acknowledging_followers = 2\n").json["members"]
    assert [settings_of(each).ring.acknowledging_followers for each in told] == [2] * 9
    assert "acknowledging_followers" not in run("plan", file=file).out


def test_a_growth_names_the_new_rings_their_givers_and_the_steps(run: Run):
    done = run("resize", "6", file=written("paris-0", 3, FIRST))
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["paris-4", "paris-1", "tcp://b:7404", "tcp://c:7404", "tcp://a:7404"] in lines
    assert [line[0] for line in lines if line and line[0][0].isdigit()] == ["1.", "2.", "3.", "4.", "5."]
    assert done.out.count("rings = 6\nwitness") == 9
    told = run("resize", "6", "--json", file=written("paris-0", 3, FIRST)).json
    assert told["moves"] == [{"to": f"paris-{number + 3}", "from": f"paris-{number}"} for number in range(3)]
    assert [settings_of(each).site_id for each in told["members"]] == [f"paris-{3 + place // 3}" for place in range(9)]
    assert len(told["steps"]) == 5


def test_a_ring_without_a_number_becomes_the_first_of_two(run: Run):
    told = run("resize", "2", "--json", file=written("paris", 1, FIRST)).json
    assert told["moves"] == [{"to": "paris-1", "from": "paris"}]
    assert [each["endpoint"] for each in told["members"]] == [f"tcp://{machine}:7401" for machine in MACHINES]
    assert {each["site"] for each in told["members"]} == {"paris-1"}


@pytest.mark.parametrize(
    ("words", "file", "told"),
    [
        (["resize", "4"], written("paris-0", 3, FIRST), "can only double"),
        (["resize", "6"], written("paris-0", 6, FIRST), "`rings` is 6 here already: run `lrq ring plan`"),
        (["resize", "4"], written("paris-1", 2, FIRST), "the first ring is paris, if it was alone once, or paris-0"),
        (["resize", "5"], written("paris-0", 3, FIRST), "5 rings cannot share the keys evenly"),
        (["resize", "2"], written("hub-7", 1, FIRST), "hub-7 is no name of the first ring"),
        (["plan"], written("paris-1", 3, [f"ipc:///run/{machine}" for machine in MACHINES]), "end it with -1"),
        (["plan"], written("paris-0", 2, [f"tcp://{machine}:65535" for machine in MACHINES]), "choose other ports"),
        (["plan"], 'site_id = "paris"\ndatabase_url = "sqlite:///paris.db"\n', "write a table [ring]"),
    ],
)
def test_each_mistake_is_one_line(run: Run, words: list[str], file: str, told: str):
    done = run(*words, file=file)
    assert (done.code, done.out) == (1, "")
    assert told in done.error


def test_the_plan_of_a_ring_with_tls_names_a_certificate_for_each_ring(run: Run):
    members = [f"tls://{machine}:7400" for machine in MACHINES]
    tls = 'tls_certificate = "p.pem"\ntls_key = "p.key"\ntls_authority = "a.pem"\n'
    done = run("plan", file=tls + written("paris-0", 3, members))
    assert done.out.count('tls_certificate = "paris-2.pem"\ntls_key = "paris-2.key"\n') == 3


def test_a_layout_is_refused_in_a_name_of_another_ring():
    with pytest.raises(ConfigurationError, match="paris-3 is the name of ring 3"):
        layout_of("paris-3", setting(FIRST, 3))
