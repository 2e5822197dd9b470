"""Find the newest version of a row that is updated often; older versions do not raise the cost.

While a PostgreSQL snapshot is held, all versions of a row stay, and an index has an entry for each. The keys of
`receive_marks` and `consumers` end with a number that each update raises. The newest version is therefore the last in
the index.
"""

from sqlalchemy import ColumnElement, Table, func, select


def newest(table: Table, queue_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition for the newest version; add it to a condition on the queue's id.

    A statement that has waited for an update of the row finds no row with this condition. *queue_id* must be a
    parameter or a subquery. For a join, PostgreSQL's planner would assume one row and read the whole index.
    """
    versions = table.alias()
    highest = select(func.max(versions.c.version)).where(versions.c.queue_id == queue_id)
    return table.c.version == highest.scalar_subquery()
