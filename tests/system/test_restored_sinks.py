"""A sink that is restored to before a snapshot which it has applied."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table, delete, insert, select

from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks, receive_headers, receive_marks, receive_snapshot_blocks
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually

Backup = Mapping[Table, list[dict[str, Any]]]


def back_up(world: World, site: str) -> Backup:
    """Return the content of a sink's tables."""
    tables = receive_marks, receive_headers, receive_blocks, receive_snapshot_blocks, consumers
    with world.site(site).begin() as connection:
        return {table: [dict(row) for row in connection.execute(select(table)).mappings()] for table in tables}


def restore(world: World, site: str, backup: Backup) -> None:
    with world.site(site).begin() as connection:
        for table, rows in backup.items():
            connection.execute(delete(table))
            if rows:
                connection.execute(insert(table), rows)


def test_a_sink_restored_to_before_an_ordered_snapshot_gets_a_snapshot_again(world: World) -> None:
    heard = world.subscribe("tokyo")
    tokyo = world.server("tokyo", listen=[])
    world.provide("paris", Messages(lambda _context: [b"loaded without an entry"]))
    options: dict[str, Any] = {"listen": [], "peers": {"tokyo": "local:tokyo"}, "initial_sync": "log"}
    paris = world.server("paris", **options)
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    in_log_sync(paris, "tokyo")
    backup = back_up(world, "tokyo")
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: heard.kinds("paris")[-1:] == ["complete 1"])
    in_log_sync(paris, "tokyo")
    paris.stop()
    tokyo.stop()
    restore(world, "tokyo", backup)
    world.server("tokyo", listen=[])
    paris = world.server("paris", **options)
    eventually(lambda: len(heard.snapshot("paris")) == 2)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris")[-1:] == [b"after"])
    assert heard.kinds("paris") == ["log 1", *["start 1", "snapshot 1", "complete 1"] * 2, "log 1"]


def test_a_member_restored_to_before_it_joined_its_group_gets_the_entries_of_the_group(world: World) -> None:
    heard = world.subscribe("tokyo-b")
    world.subscribe("tokyo-a")
    world.server("tokyo-a", listen=[])
    tokyo = world.server("tokyo-b", listen=[])
    world.provide("paris", Messages(lambda _context: [b"state of the group"]))
    options: dict[str, Any] = {
        "listen": [], "peers": {"tokyo-a": "local:tokyo-a", "tokyo-b": "local:tokyo-b"}, "initial_sync": "log",
    }  # fmt: skip
    paris = world.server("paris", replicas={"tokyo": ["tokyo-a"]}, **options)
    world.transmit("paris", b"of the group", to=["tokyo"])
    world.transmit("paris", b"of its own", to=["tokyo-b"])
    eventually(lambda: heard.log("paris") == [b"of its own"])
    in_log_sync(paris, "tokyo-a", "tokyo-b")
    backup = back_up(world, "tokyo-b")
    paris.stop()
    options["replicas"] = {"tokyo": ["tokyo-a", "tokyo-b"]}
    paris = world.server("paris", **options)
    eventually(lambda: heard.snapshot("paris") == [b"state of the group"])
    in_log_sync(paris, "tokyo-b")
    paris.stop()
    tokyo.stop()
    restore(world, "tokyo-b", backup)
    world.server("tokyo-b", listen=[])
    world.server("paris", **options)
    eventually(lambda: heard.snapshot("paris") == [b"state of the group"] * 2)
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris")[-1:] == [b"after"])
