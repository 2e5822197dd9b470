import pytest

from queues.codec import decode_entry, encode_entry, received_entry
from queues.errors import CorruptFrameError
from queues.names import client_name, site_id
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC, NONE, SNAPSHOT_SYNC, RoutingTableEntryMsg

OF = {"source": site_id("paris"), "client": client_name("policy"), "sequence": 7}


def test_an_empty_payload_is_a_payload():
    entry = received_entry(**OF, payload=b"")
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        (RoutingTableEntryMsg(opaque_payload=b"x"), "type"),
        (RoutingTableEntryMsg(type=LOG_ENTRY_SYNC), "opaque_payload"),
    ],
)
def test_a_required_field_that_is_missing_is_named(entry, missing):
    with pytest.raises(CorruptFrameError, match=f"required field {missing}$"):
        encode_entry(entry)
    with pytest.raises(CorruptFrameError, match=f"required field {missing}$"):
        decode_entry(entry.SerializeToString())


def test_the_type_none_is_refused():
    with pytest.raises(CorruptFrameError, match="NONE"):
        encode_entry(RoutingTableEntryMsg(type=NONE, opaque_payload=b"x"))


def test_bytes_that_are_no_entry_are_refused():
    with pytest.raises(CorruptFrameError, match="3 bytes"):
        decode_entry(b"\xff\xff\xff")


def test_a_received_log_entry_has_its_envelope():
    entry = received_entry(**OF, payload=b"x", item_key="k", transaction=6, commit_time_us=5, branch="b1")
    assert entry.type == LOG_ENTRY_SYNC
    assert (entry.source_id, entry.client_name, entry.sequence) == ("paris", "policy", 7)
    assert (entry.item_key, entry.transaction, entry.commit_time_us, entry.branch) == ("k", 6, 5, "b1")
    assert not entry.destinations


def test_an_entry_of_a_snapshot_names_it_and_has_no_key_unless_given():
    entry = received_entry(**OF, payload=b"x", sync_id="s1")
    assert (entry.type, entry.sync_id) == (SNAPSHOT_SYNC, "s1")
    assert not entry.HasField("item_key")
