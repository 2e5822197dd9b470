"""The bytes of accepted frames are counted, and the names that peers choose are bounded."""

from sink.transport.received_bytes import OTHERS, ReceivedBytes, ReceivedStream


def test_bytes_count_by_client_and_source():
    received = ReceivedBytes()
    received.add("policy", "paris", 3)
    received.add("policy", "paris", 4)
    received.add("policy", "lima", 5)
    assert received.totals == {ReceivedStream("policy", "paris"): 7, ReceivedStream("policy", "lima"): 5}


def test_more_pairs_than_are_told_apart_count_together():
    received = ReceivedBytes(most=2)
    for number in range(5):
        received.add(f"client-{number}", "paris", 1)
    received.add("client-0", "paris", 1)
    assert received.totals == {
        ReceivedStream("client-0", "paris"): 2,
        ReceivedStream("client-1", "paris"): 1,
        OTHERS: 3,
    }
