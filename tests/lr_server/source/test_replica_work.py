"""A source goes above the choices that its members have heard, within reason."""

import pytest
from sqlalchemy import Engine, text

from discovery.topology import StaticTopology
from lr_server.source.replica_work import ReplicaWork
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading, writing
from queues.names import SiteId
from queues.replica_groups import ActiveMember
from queues.send_log.memory import MemoryLog
from queues.send_log.replica_members import read_active, read_facts, read_groups, store_groups
from sink.protocol.log_rules import LARGEST_GENERATION, LARGEST_STEP

TOPOLOGY = StaticTopology({"tokyo-a": "tcp://a:1", "tokyo-b": "tcp://b:1"}, {"tokyo": ["tokyo-a", "tokyo-b"]})
A = SiteId("tokyo-a")


@pytest.fixture
def work(site: Engine) -> ReplicaWork:
    with writing(site) as connection:
        store_groups(connection, TOPOLOGY.replicas())
    made = ReplicaWork(site, TOPOLOGY, MemoryLog, pause=3600, clock=SYSTEM_CLOCK)
    made.look(at_once=True)
    return made


def chosen(site: Engine) -> ActiveMember:
    with reading(site) as connection:
        [found] = read_active(connection)
    return found


def test_a_choice_goes_above_a_later_generation_of_a_member(site: Engine, work: ReplicaWork) -> None:
    work.heard(A, chosen(site).generation + 500)
    assert chosen(site).member == A
    assert chosen(site).generation > 500


@pytest.mark.parametrize("told", [LARGEST_STEP + 100, LARGEST_GENERATION, 2**63 - 1])
def test_a_generation_that_no_source_can_have_told_changes_nothing(site: Engine, work: ReplicaWork, told: int) -> None:
    before = chosen(site)
    work.heard(A, told)
    assert chosen(site) == before


def test_one_statement_reads_all_facts_and_the_members_in_their_order(site: Engine) -> None:
    groups = {SiteId("rome"): tuple(map(SiteId, ("z", "a", "m"))), SiteId("oslo"): tuple(map(SiteId, ("b", "a2")))}
    with writing(site) as connection:
        store_groups(connection, groups)
        connection.execute(text("UPDATE lrq_log_head SET regrouped_seq = 77"))
    with reading(site) as connection:
        facts = read_facts(connection)
        assert facts == (read_groups(connection), read_active(connection), 77)
    assert facts.groups == groups
    assert [each.member for each in facts.active] == ["b", "z"]


def test_a_site_without_groups_has_no_members(site: Engine) -> None:
    with reading(site) as connection:
        assert read_facts(connection) == ({}, [], 0)
