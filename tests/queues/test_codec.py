"""A received entry carries its payload and its envelope."""

from queues.codec import received_entry
from queues.names import client_name, site_id
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, SNAPSHOT_SYNC, RoutingTableEntryMsg

OF = {"source": site_id("paris"), "client": client_name("policy"), "sequence": 7}


def test_an_empty_payload_is_encoded_and_decoded():
    entry = received_entry(**OF, payload=b"")
    assert RoutingTableEntryMsg.FromString(entry.SerializeToString()).HasField("opaque_payload")


def test_a_received_log_entry_has_its_envelope():
    entry = received_entry(**OF, payload=b"x", item_key="k", transaction=6, commit_time_us=5, branch="b1")
    assert entry.type == LOG_ENTRY_SYNC
    assert (entry.source_id, entry.client_name, entry.sequence) == ("paris", "policy", 7)
    assert (entry.item_key, entry.transaction, entry.commit_time_us, entry.branch) == ("k", 6, 5, "b1")
    assert not entry.destinations


def test_an_entry_of_a_snapshot_names_the_snapshot_and_has_a_key_only_if_given():
    entry = received_entry(**OF, payload=b"x", sync_id="s1")
    assert (entry.type, entry.sync_id) == (SNAPSHOT_SYNC, "s1")
    assert not entry.HasField("item_key")
