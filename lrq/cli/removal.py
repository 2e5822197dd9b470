"""The reasons against a removal of a site's tables, and the SQL of the removal."""

from sqlalchemy import Engine

from discovery.site_status import SiteStatus
from discovery.status import read_status
from lrq.cli.manual_trim import owner_of
from lrq.cli.place import SitePlace
from lrq.cli.views.status_tables import owner_words
from lrq.cli.waits.drain import Scope, drain
from lrq.cli.words import plural
from queues.database.migrations import removal, require
from queues.database.schemas import schema_of
from queues.names import SiteId
from queues.states import SessionState


def obstacles(engine: Engine, site: SiteId | None) -> list[str]:
    """Return one clause, with its cure, for each reason not to remove the tables; none if they may go.

    Raises `SetupError` for a database without the tables of this version, and for another site.
    """
    require(engine, site_id=site)
    owner = owner_of(engine)
    working = [f"{owner_words(owner)} works for this site: stop that server"] if owner else []
    unbegun = [f"there is no session to {name} yet: drain the site" for name in drain(engine, Scope(), 0.0).missing]
    return working + undelivered(read_status(engine)) + unbegun


def undelivered(status: SiteStatus) -> list[str]:
    """Return one clause for each queue of *status* with entries that are not delivered or not applied. Pure."""
    found = []
    if status.log.waiting:
        found.append(f"{_entries(status.log.waiting)} not sent yet: run `lrq serve`, then `lrq drain`")
    for session in status.sessions:
        if session.lag.entries and session.state is not SessionState.INACTIVE:
            to = f"to {session.destination} ({session.client})"
            found.append(f"{_entries(session.lag.entries)} undelivered {to}: run `lrq drain`")
    for queue in status.receive_queues:
        if queue.outstanding:
            source = f"from {queue.source} ({queue.client})"
            found.append(f"{_entries(queue.outstanding)} received {source} and not applied: wait for the subscriber")
    return found


def _entries(number: int) -> str:
    return f"{plural(number, 'entry is', 'entries are')}"


def printed(place: SitePlace, *, transactional: bool) -> str:
    """Return the SQL that removes the tables of *place* at the newest schema."""
    return removal(place.url.get_backend_name(), transactional=transactional, schema=schema_of(place.url))
