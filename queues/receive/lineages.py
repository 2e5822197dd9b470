"""The branches of each source, as the source has told them in the last negotiation."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from queues.database.tables.receive import receive_branches
from queues.lineage import BranchOrigin
from queues.names import ClientName, SiteId


def keep(connection: Connection, client: ClientName, source: SiteId, branches: Sequence[BranchOrigin]) -> None:
    """Store the *branches* of *source*, oldest first; without any, keep those that are stored."""
    if not branches or list(branches) == known(connection, client, source):
        return
    own = receive_branches.c.client == client, receive_branches.c.source == source
    connection.execute(delete(receive_branches).where(*own))
    rows = [
        {"client": client, "source": source, "number": number, **told._asdict()} for number, told in enumerate(branches)
    ]
    connection.execute(insert(receive_branches), rows)


def known(connection: Connection, client: ClientName, source: SiteId) -> list[BranchOrigin]:
    """Return the stored branches of *source*, oldest first; empty for a source that told none."""
    columns = [receive_branches.c[name] for name in BranchOrigin._fields]
    own = receive_branches.c.client == client, receive_branches.c.source == source
    return [
        BranchOrigin(*row)
        for row in connection.execute(select(*columns).where(*own).order_by(receive_branches.c.number))
    ]
