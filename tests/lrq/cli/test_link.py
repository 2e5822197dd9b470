"""`lrq link`: lists, ends, begins and forgets links."""

import pytest

from queues.database.transactions import reading
from queues.send_log.links import every_link
from queues.send_log.sessions import every_key
from queues.states import SessionState
from tests.lrq.cli.command import Command, Done
from tests.lrq.cli.source import SourceSite

GONE = {"state": SessionState.INACTIVE.value, "reason": "the site is not among the peers of the server"}


@pytest.fixture
def link(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq link` on a site with two inactive sessions to lima and one session to tokyo."""
    source.session("lima", client="policy", **GONE)
    source.session("lima", client="tenant", **GONE)
    source.session("tokyo", client="policy")

    def run(command: str, *arguments: str) -> Done:
        return lrq("link", command, *arguments, "--database", source.url)

    return run


def wishes(source: SourceSite) -> dict[tuple[str, str], str]:
    with reading(source.engine) as connection:
        return {tuple(row.key): row.wish.value for row in every_link(connection)}


def sessions(source: SourceSite) -> set[tuple[str, str]]:
    with reading(source.engine) as connection:
        return {tuple(key) for key in every_key(connection)}


def test_a_link_is_ended_listed_and_begun_again(link, source: SourceSite):
    done = link("end", "tokyo")
    assert (done.code, done.out) == (0, "1 link to tokyo will end: new entries are refused, earlier ones are sent\n")
    assert link("end", "tokyo").out == "every link to tokyo has been ended before\n"
    listed = link("list", "--json").json
    assert {(each["client"], each["destination"]): each["state"] for each in listed["links"]} == {
        ("policy", "lima"): "running",
        ("tenant", "lima"): "running",
        ("policy", "tokyo"): "draining",
    }
    (tokyo,) = [each for each in listed["links"] if each["destination"] == "tokyo"]
    assert tokyo["reason"] == "log-entry sync: live"
    assert "draining" in link("list").out
    assert link("begin", "tokyo").out == "1 link to tokyo begins again\n"
    assert wishes(source) == {}
    missing = link("begin", "tokyo")
    assert (missing.code, missing.error) == (3, "no link to tokyo has ended")


def test_a_link_may_end_before_its_first_entry(link, source: SourceSite):
    missing = link("end", "oslo")
    assert missing.code == 3
    assert "there is no link to oslo" in missing.error
    assert link("end", "oslo", "--client", "policy", "--json").json["ended"] == [
        {"client": "policy", "destination": "oslo"}
    ]
    assert wishes(source) == {("policy", "oslo"): "draining"}


def test_sessions_of_a_removed_site_are_forgotten_and_its_name_stays_legal(link, source: SourceSite):
    done = link("forget", "lima")
    assert (done.code, done.out) == (0, "forgotten: 2 links to lima\n")
    assert sessions(source) == {("policy", "tokyo")}
    assert wishes(source) == {("policy", "lima"): "released", ("tenant", "lima"): "released"}
    source.transmit(b"x", to=["lima"])


def test_the_session_of_one_client_is_forgotten(link, source: SourceSite):
    assert link("forget", "lima", "--client", "tenant", "--json").json == {
        "site": "paris",
        "released": [{"client": "tenant", "destination": "lima"}],
        "queues": [],
    }
    assert wishes(source) == {("tenant", "lima"): "released"}


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_link_that_is_not_finished_is_forgotten_only_by_force(link, source: SourceSite, is_ended: bool):
    if is_ended:
        link("end", "tokyo")
    refused = link("forget", "tokyo")
    assert refused.code == 3
    cure = "wait" if is_ended else "run `lrq link end tokyo` and wait"
    assert refused.error == (
        f"the link of policy to tokyo is not finished (log-entry sync: live): {cure}, or say --force"
    )
    assert link("forget", "tokyo", "--force").code == 0
    assert wishes(source) == {("policy", "tokyo"): "ended"}
    assert sessions(source) == {("policy", "lima"), ("tenant", "lima")}
    (tokyo,) = [each for each in link("list", "--json").json["links"] if each["destination"] == "tokyo"]
    assert (tokyo["state"], tokyo["session"]) == ("forgotten", None)


def test_a_link_that_drained_when_its_site_was_removed_names_the_way_to_its_end(link, source: SourceSite):
    link("end", "lima", "--client", "policy")
    refused = link("forget", "lima", "--client", "policy")
    assert (refused.code, refused.error) == (
        3,
        "the link of policy to lima is not finished (inactive: the site is not among the peers of the server): "
        "make the site a peer again and wait, or say --force",
    )


def test_a_link_that_does_not_exist_is_no_answer(link, source: SourceSite):
    missing = link("forget", "nairobi")
    assert (missing.code, missing.error) == (3, "there is no link with nairobi")
    assert link("forget", "tokyo", "--client", "tenant").error == "there is no link with tokyo of client tenant"
    assert link("forget", "tokyo", "--incoming").error == "there is no link with tokyo"
    assert link("forget", "tokyo", "--incoming", "--outgoing").code == 2
    assert wishes(source) == {}
