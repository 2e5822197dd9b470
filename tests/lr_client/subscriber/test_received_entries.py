"""A received entry carries its payload and its envelope."""

from lr_client.subscriber.received_entries import received_entries
from queues.names import client_name, site_id
from queues.receive.received_rows import ReceivedRow
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, SNAPSHOT_SYNC, RoutingTableEntryMsg

OF = {"source": site_id("paris"), "client": client_name("policy")}


def test_an_empty_payload_is_encoded_and_decoded():
    (entry,) = received_entries([ReceivedRow(7, 6, 5, None, b"")], **OF)
    assert RoutingTableEntryMsg.FromString(entry.SerializeToString()).HasField("opaque_payload")


def test_a_received_log_entry_has_its_envelope():
    (entry,) = received_entries([ReceivedRow(7, 6, 5, "k", b"x", '{"a":"b"}', "p")], **OF, branch="b1")
    assert (entry.type, entry.opaque_payload) == (LOG_ENTRY_SYNC, b"x")
    assert (entry.source_id, entry.client_name, entry.sequence) == ("paris", "policy", 7)
    assert (entry.item_key, entry.transaction, entry.commit_time_us, entry.branch) == ("k", 6, 5, "b1")
    assert (dict(entry.headers), entry.partition_key) == ({"a": "b"}, "p")
    assert (entry.sync_id, list(entry.destinations)) == ("", [])


def test_an_entry_of_a_snapshot_names_the_snapshot_and_has_a_key_only_if_given():
    (entry,) = received_entries([ReceivedRow(7, 7, 0, None, b"x")], **OF, sync_id="s1")
    assert (entry.type, entry.sync_id, entry.branch) == (SNAPSHOT_SYNC, "s1", "")
    assert (entry.transaction, entry.commit_time_us) == (0, 0)
    assert not entry.HasField("item_key")
    assert not entry.HasField("partition_key")


def test_each_entry_has_its_own_fields():
    rows = [ReceivedRow(1, 1, 5, "k", b"x", '{"a":"b"}', "p"), ReceivedRow(2, 1, 5, None, b"y")]
    first, second = received_entries(rows, **OF, branch="b1")
    assert (first.sequence, second.sequence, second.opaque_payload) == (1, 2, b"y")
    assert not second.HasField("item_key")
    assert not second.headers
