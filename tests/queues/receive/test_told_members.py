"""The words of sources about the member that serves: the newest generation counts."""

from sqlalchemy import Engine

from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.receive.fences import StoredFence, reset_fences
from queues.receive.told_members import newest_generation, note, read_told

PARIS, OSLO, TOKYO = SiteId("paris"), SiteId("oslo"), SiteId("tokyo")
A, B = SiteId("tokyo-a"), SiteId("tokyo-b")
POLICY, AUDIT = ClientName("policy"), ClientName("audit")


def tell(site: Engine, member: SiteId, generation: int, *, client: ClientName = POLICY, source: SiteId = PARIS) -> None:
    with writing(site) as connection:
        note(connection, client, source, name=TOKYO, member=member, generation=generation)


def told(site: Engine) -> list[tuple[str, str, int]]:
    with reading(site) as connection:
        return [(each.source, each.member, each.generation) for each in read_told(connection)]


def test_a_lower_generation_changes_nothing_and_an_equal_one_renews_the_word(site: Engine) -> None:
    tell(site, A, 5)
    tell(site, B, 7)
    tell(site, A, 6)
    assert told(site) == [("paris", "tokyo-b", 7)]
    with writing(site) as connection:
        connection.exec_driver_sql("UPDATE lrq_told_members SET told_us = 1")
    tell(site, A, 6)
    with reading(site) as connection:
        assert read_told(connection)[0].age_us > 1_000_000_000
    tell(site, B, 7)
    with reading(site) as connection:
        assert read_told(connection)[0].age_us < 60_000_000
        assert newest_generation(connection, POLICY, PARIS) == 7
        assert newest_generation(connection, AUDIT, PARIS) == 0


def test_the_newest_word_of_all_sessions_counts_for_each_source(site: Engine) -> None:
    tell(site, A, 5)
    tell(site, B, 7, client=AUDIT)
    tell(site, A, 2, source=OSLO)
    assert told(site) == [("oslo", "tokyo-a", 2), ("paris", "tokyo-b", 7)]


def test_a_reset_fence_forgets_the_words_of_its_source_and_client_alone(site: Engine) -> None:
    tell(site, B, 7)
    tell(site, A, 6, client=AUDIT)
    tell(site, A, 2, source=OSLO)
    with writing(site) as connection:
        reset_fences(connection, [StoredFence(PARIS, POLICY, 7)])
    assert told(site) == [("oslo", "tokyo-a", 2), ("paris", "tokyo-a", 6)]
