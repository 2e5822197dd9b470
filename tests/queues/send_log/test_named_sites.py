"""The pairs of client and destination that the dictionary of destination sets names."""

from sqlalchemy import Engine, insert

from queues.database.tables.destinations import tag_set_members
from queues.send_log.named_sites import named_sites


def name(site: Engine, *rows: tuple[str, str, int]) -> None:
    with site.begin() as connection:
        named = [{"client": client, "destination": there, "tag_set": number} for client, there, number in rows]
        connection.execute(insert(tag_set_members), named)


def test_an_empty_dictionary_names_no_site(site: Engine) -> None:
    with site.connect() as connection:
        assert named_sites(connection) == []


def test_each_pair_is_named_once_however_many_sets_name_it(site: Engine) -> None:
    name(site, *(("policy", there, number) for there in ("lima", "tokyo") for number in range(20)))
    name(site, ("tenant", "kyoto", 100), ("tenant", "lima", 100), ("zone", "lima", 200), ("a", "z", 300))
    with site.connect() as connection:
        assert named_sites(connection) == [
            ("a", "z"),
            ("policy", "lima"),
            ("policy", "tokyo"),
            ("tenant", "kyoto"),
            ("tenant", "lima"),
            ("zone", "lima"),
        ]
