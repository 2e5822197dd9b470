"""A session reports for each failure whether the sink or its own site is the cause."""

import asyncio

import pytest

from lr_server.protocol.answers import refused
from lr_server.protocol.events import Event, PeerLost, RefusalKind, Refused, SourceFailed
from lr_server.session.failures import event_for, peer_lost, source_failed
from queues import errors
from queues.wire.replication_pb2 import Refusal
from queues.words import LONGEST

SLEEPING = errors.StoreUnavailableError("the database cannot be used just now: disk I/O error")
DAMAGED = errors.CorruptFrameError("the checksum of a block of 9 bytes is wrong")


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (errors.PeerUnreachableError("no answer"), PeerLost("no answer")),
        (errors.ProtocolError("no sink"), Refused(RefusalKind.PROTOCOL, "no sink")),
        (SLEEPING, SourceFailed(f"this site's database: {SLEEPING}")),
        (errors.ConfigurationError("no such file"), SourceFailed("this site: no such file")),
        (asyncio.CancelledError(), SourceFailed("this site failed unexpectedly: CancelledError")),
        (KeyError("x"), SourceFailed("this site failed unexpectedly: KeyError: 'x'")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_names_its_cause(error: BaseException, event: Event):
    assert event_for(error) == event


def test_a_damaged_row_of_this_site_is_not_reported_as_a_fault_of_the_sink():
    assert source_failed(DAMAGED) == SourceFailed(f"this site: {DAMAGED}")


FOREIGN = "\0" + "x" * 3_500_000
KEPT = "�" + "x" * (LONGEST - 2) + "…"


def test_the_words_of_a_sink_or_of_an_error_are_cut_and_storable():
    assert refused(Refusal(kind=Refusal.TRANSIENT, reason=FOREIGN)) == Refused(RefusalKind.TRANSIENT, KEPT)
    assert peer_lost(errors.PeerUnreachableError(FOREIGN)) == PeerLost(KEPT)
    assert event_for(errors.ProtocolError(FOREIGN)) == Refused(RefusalKind.PROTOCOL, KEPT)
    for error in (errors.StoreUnavailableError(FOREIGN), errors.ConfigurationError(FOREIGN), KeyError(FOREIGN)):
        assert len(source_failed(error).reason) <= LONGEST + len("this site failed unexpectedly: ")
