"""Requests for snapshots of several sites, divided into one request for each site."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Engine

from queues import send_snapshot
from queues.database.transactions import writing
from queues.names import SiteId
from queues.send_log.links import closed_links
from queues.send_snapshot import SnapshotSync, hints


def divide(
    engine: Engine, requests: Sequence[SnapshotSync], sites: Mapping[SiteId, Collection[SiteId]]
) -> Sequence[SnapshotSync]:
    """Divide each request whose destination is a name in *sites*, and return the newest requests afterwards.

    Sites with an ended link to the client get no request.
    """
    for_all = {
        (request.client, request.destination)
        for request in requests
        if request.destination in sites and not request.finished
    }
    if not for_all:
        return requests
    with writing(engine) as connection:
        for client, asked in for_all:
            closed = closed_links(connection).get(client, frozenset())
            send_snapshot.expand(connection, client, sorted({*sites[asked]} - closed), asked)
        divided, names = send_snapshot.newest_of_each(connection), hints.names_at(connection)
    for client, _ in for_all:
        hints.send(names.transmitter(client))
    return divided
