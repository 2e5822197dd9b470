"""The end of a link, as its session stores it."""

from sqlalchemy import Engine

from lr_server.session.link_end import LinkEnd
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.send_log.links import every_link, set_wish
from queues.send_log.port import SessionKey
from queues.states import LinkWish
from tests.lr_client.snapshot.providing import LIMA, POLICY, TOKYO, claim, newest, publish, request, write_part

OWED = SessionKey(POLICY, TOKYO)


def draining_by(site: Engine) -> int:
    """Let the link drain, and return its order."""
    with writing(site) as connection:
        set_wish(connection, [OWED], LinkWish.DRAINING)
    with reading(site) as connection:
        [row] = every_link(connection)
    return row.asked_us


def test_a_snapshot_that_was_asked_for_too_late_ends_with_the_link(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"row"]))
    request(site, "lima")
    order = draining_by(site)
    LinkEnd(site, OWED).note_finished(order + 1)
    assert newest(site, TOKYO).state == "ready"
    LinkEnd(site, OWED).note_finished(order)
    assert (newest(site, TOKYO).state, newest(site, TOKYO).error) == ("cancelled", "the link has ended")
    assert newest(site, LIMA).state == "requested"
    with writing(site) as connection:
        assert send_snapshot.collect_garbage(connection) == 1
