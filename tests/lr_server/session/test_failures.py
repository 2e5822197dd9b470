"""A session reports for each failure whether the sink or its own site is the cause."""

import pytest

from lr_server.protocol.events import Event, PeerLost, RefusalKind, Refused, SourceFailed
from lr_server.session.failures import event_for, source_failed
from queues import errors

SLEEPING = errors.StoreUnavailableError("the database cannot be used just now: disk I/O error")
DAMAGED = errors.CorruptFrameError("the checksum of a block of 9 bytes is wrong")


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (errors.PeerUnreachableError("no answer"), PeerLost("no answer")),
        (errors.ProtocolError("no sink"), Refused(RefusalKind.PROTOCOL, "no sink")),
        (SLEEPING, SourceFailed(f"this site's database: {SLEEPING}")),
        (errors.ConfigurationError("no such file"), SourceFailed("this site: no such file")),
        (KeyError("x"), SourceFailed("this site failed unexpectedly: KeyError: 'x'")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_names_its_cause(error: Exception, event: Event):
    assert event_for(error) == event


def test_a_damaged_row_of_this_site_is_not_reported_as_a_fault_of_the_sink():
    assert source_failed(DAMAGED) == SourceFailed(f"this site: {DAMAGED}")
