"""The way to a row that is updated for ever, however many older versions of it PostgreSQL has to keep.

While somebody's snapshot is held, no version goes away, and an index names each of them under the key of the row. In
`receive_marks` and `consumers` the key ends with a number that each update raises: the newest one is found at its end.
"""

from sqlalchemy import ColumnElement, Table, func, select


def newest(table: Table, queue_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition for the one row of *queue_id*, to be added to one on the queue's id itself.

    A statement that waited for somebody's update of the row finds nothing by it. Give the id as a parameter or a
    subquery: to PostgreSQL's planner the table has one row, so that for a join it would read the whole index.
    """
    versions = table.alias()
    highest = select(func.max(versions.c.version)).where(versions.c.queue_id == queue_id)
    return table.c.version == highest.scalar_subquery()
