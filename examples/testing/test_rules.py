"""Tests of the application: its sending side, its listener, and both sides together."""

import pytest
from rules import ApplyRules, Base, Rule, save_rule
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from lrq.testing import LocalSite, Transmitted, deliver, transmitted


def test_a_saved_rule_is_owed_to_every_branch(session: Session) -> None:
    """Look at the entries of the test's transaction, although the application has committed."""
    save_rule(session, "speed", "50 km/h")
    assert transmitted(session) == [Transmitted("rules", ("lima", "tokyo"), b'["speed", "50 km/h"]', "speed")]


def test_a_refused_rule_is_owed_to_no_site(session: Session) -> None:
    """A rollback of the application removes the entries too."""
    with pytest.raises(ValueError, match="rule speed has no text"):
        save_rule(session, "speed", "")
    assert transmitted(session) == []


def test_each_test_begins_without_the_rules_of_others(session: Session) -> None:
    """Nothing of the tests before is there."""
    assert session.scalar(select(func.count()).select_from(Rule)) == 0
    assert transmitted(session) == []


def test_a_branch_applies_the_rule_that_it_gets(session: Session) -> None:
    """Call the listener within the test's transaction, as a subscription would."""
    assert deliver(session, ApplyRules(), [b'["speed", "50 km/h"]', b'["speed", "30 km/h"]'])
    rule = session.get(Rule, "speed")
    assert rule is not None
    assert rule.text == "30 km/h"


def test_a_branch_applies_the_entries_of_the_sender(session: Session) -> None:
    """Hand the entries of the sending side to the listener, without a server."""
    save_rule(session, "speed", "50 km/h")
    sent = transmitted(session, destination="tokyo")
    session.delete(session.get_one(Rule, "speed"))
    assert deliver(session, ApplyRules(), sent, source="paris")
    assert session.get_one(Rule, "speed").text == "50 km/h"


def test_a_rule_travels_to_every_branch(lrq_pair: tuple[LocalSite, ...]) -> None:
    """Run three sites with their servers in this process."""
    paris, *branches = lrq_pair
    for each in lrq_pair:
        Base.metadata.create_all(each.engine)
    for branch in branches:
        branch.subscribe(ApplyRules())
    with paris.session() as session:
        save_rule(session, "speed", "50 km/h")
    paris.settle()
    for branch in branches:
        with branch.session() as session:
            assert session.get_one(Rule, "speed").text == "50 km/h"
