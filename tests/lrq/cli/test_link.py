"""`lrq link`: releases the claims of sites and clients that are gone for good."""

import pytest

from queues.database.transactions import reading
from queues.send_log.released import released
from queues.states import SessionState
from tests.lrq.cli.command import Command, Done
from tests.lrq.cli.source import SourceSite

GONE = {"state": SessionState.INACTIVE.value, "reason": "the site is not among the peers of the server"}


@pytest.fixture
def forget(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq link forget` on a site with two sessions to lima and one to tokyo."""
    source.session("lima", client="policy", **GONE)
    source.session("lima", client="tenant", **GONE)
    source.session("tokyo", client="policy")

    def run(*arguments: str) -> Done:
        return lrq("link", "forget", "--database", source.url, *arguments)

    return run


def free(source: SourceSite) -> set[tuple[str, str]]:
    with reading(source.engine) as connection:
        return {tuple(key) for key in released(connection)}


def test_all_sessions_to_a_site_are_forgotten(forget, source: SourceSite):
    done = forget("lima")
    assert (done.code, done.out) == (0, "no entries are kept any more for 2 sessions to lima\n")
    assert free(source) == {("policy", "lima"), ("tenant", "lima")}


def test_the_session_of_one_client_is_forgotten(forget, source: SourceSite):
    assert forget("lima", "--client", "tenant", "--json").json == {
        "site": "paris",
        "released": [{"client": "tenant", "destination": "lima"}],
    }
    assert free(source) == {("tenant", "lima")}


def test_an_active_session_is_forgotten_only_by_force(forget, source: SourceSite):
    refused = forget("tokyo")
    assert refused.code == 1
    assert refused.error == (
        "the session of policy to tokyo is not inactive (log-entry sync): take the site out of `peers` and restart "
        "the server first, or say --force"
    )
    assert free(source) == set()
    assert forget("tokyo", "--force").code == 0
    assert free(source) == {("policy", "tokyo")}


def test_a_session_that_does_not_exist_is_an_error(forget, source: SourceSite):
    assert forget("nairobi").error == "there is no session to nairobi"
    assert forget("tokyo", "--client", "tenant").error == "there is no session to tokyo of client tenant"
    assert free(source) == set()
