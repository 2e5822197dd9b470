"""`lrq replica`: groups in the table, and the member that serves."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine

from queues.database.transactions import writing
from queues.names import SiteId
from queues.send_log.replica_members import store_groups
from tests.lrq.cli.command import Command


@pytest.fixture
def file(site: Engine, lrq: Command) -> Path:
    """Write the file of site paris, whose topology is a table with two peers; give its path."""
    path = Path("lrq.toml")
    url = site.url.render_as_string(hide_password=False)
    path.write_text(f'site_id = "paris"\ndatabase_url = "{url}"\ntopology = "table"\n')
    for name in ("tokyo-a", "tokyo-b"):
        assert lrq("peer", "add", name, f"tcp://{name}:7400").code == 0
    return path


def test_groups_are_added_changed_and_removed(lrq: Command, file: Path) -> None:
    assert lrq("replica", "add", "tokyo", "tokyo-a").out == "tokyo is tokyo-a now; version 4 of the peers\n"
    both = lrq("replica", "add", "tokyo", "tokyo-a", "tokyo-b")
    assert both.out == "tokyo is tokyo-a, tokyo-b now; version 5 of the peers\n"
    again = lrq("replica", "add", "tokyo", "tokyo-a", "tokyo-b")
    assert again.out == "tokyo is as it was; version 5 of the peers\n"
    removed = lrq("replica", "remove", "tokyo", "--json")
    assert removed.json == {"site": "paris", "name": "tokyo", "version": 6}
    missing = lrq("replica", "remove", "tokyo")
    assert (missing.code, missing.error) == (
        3,
        "there are no replicas 'tokyo' in the table: `lrq replica list` shows them",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tokyo-a", "tokyo-b"], "replicas[tokyo-a] has the name of a peer"),
        (["tokyo", "oslo"], "replicas[tokyo]: 'oslo' is no peer"),
        (["tokyo", "tokyo-a", "tokyo-a"], "replicas[tokyo]: 'tokyo-a' is there twice"),
        (["east", "tokyo-b"], "replicas[tokyo]: 'tokyo-b' is in replicas[east] too"),
        (["east", "east"], "replicas name each other in a circle (east -> east)"),
    ],
)
def test_a_wrong_group_is_refused_and_nothing_is_written(
    lrq: Command, file: Path, arguments: Sequence[str], words: str
) -> None:
    assert lrq("replica", "add", "tokyo", "tokyo-b").code == 0
    refused = lrq("replica", "add", *arguments)
    assert refused.code == 1
    assert refused.error.startswith(words)
    assert lrq("replica", "add", "tokyo", "tokyo-b").out == "tokyo is as it was; version 4 of the peers\n"


def test_a_member_cannot_be_removed_from_the_peers(lrq: Command, file: Path) -> None:
    lrq("replica", "add", "tokyo", "tokyo-a", "tokyo-b")
    refused = lrq("peer", "remove", "tokyo-a")
    assert (refused.code, refused.error) == (
        1,
        "tokyo-a is a member of the replicas tokyo: give tokyo other members first (`lrq replica add`)",
    )
    lrq("replica", "add", "tokyo", "tokyo-b")
    assert lrq("peer", "remove", "tokyo-a").code == 0


def test_the_name_moves_and_the_list_shows_it(lrq: Command, file: Path, site: Engine) -> None:
    with writing(site) as connection:
        store_groups(connection, {SiteId("tokyo"): (SiteId("tokyo-a"), SiteId("tokyo-b"))})
    (before,) = lrq("replica", "list", "--json").json["replicas"]
    assert (before["name"], before["members"], before["active"]) == ("tokyo", ["tokyo-a", "tokyo-b"], "tokyo-a")
    done = lrq("replica", "promote", "tokyo-b")
    generation = before["generation"] + 1
    assert done.out == f"tokyo-b serves for tokyo now, generation {generation}; before: tokyo-a\n"
    again = lrq("replica", "promote", "tokyo-b", "--json")
    assert again.json == {
        "site": "paris", "name": "tokyo", "active": "tokyo-b", "generation": generation, "before": "tokyo-b",
        "changed": False,
    }  # fmt: skip
    assert "tokyo-b" in lrq("replica", "list").out
    assert "tokyo: tokyo-b serves, of tokyo-a, tokyo-b" in lrq("status").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tokyo", "tokyo is the name of the group: name one of its members (tokyo-a, tokyo-b)"),
        ("lima", "lima is in no group of replicas here: `lrq replica list` shows the groups"),
    ],
)
def test_only_a_member_is_promoted(lrq: Command, file: Path, site: Engine, name: str, words: str) -> None:
    with writing(site) as connection:
        store_groups(connection, {SiteId("tokyo"): (SiteId("tokyo-a"), SiteId("tokyo-b"))})
    refused = lrq("replica", "promote", name)
    assert (refused.code, refused.error) == (1, words)


def test_a_site_without_replicas_says_so(lrq: Command, file: Path) -> None:
    assert lrq("replica", "list").out == "there are no replicas\n"
