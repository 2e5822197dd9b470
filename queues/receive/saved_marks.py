"""The statements that replace the sink's marks of a receive queue, for marks that the transaction has locked.

A trigger or rule of others may leave the change out. Without an error here the sink would acknowledge entries that its
marks do not have. PostgreSQL's statement fails by itself, because its message may carry the commit.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BindParameter, Integer, bindparam, case, cast, exists, select, update

from queues.database import dialects
from queues.database.dialect import Dialect, Executed
from queues.database.left_out import left_out
from queues.database.tables.receive import receive_marks

#: The new marks, as parameters with the prefix `new_`.
NEW: Final[Mapping[str, BindParameter[Any]]] = {
    column.name: bindparam(f"new_{column.name}", type_=column.type)
    for column in receive_marks.c
    if column is not receive_marks.c.queue_id
}


def new_values(marks: Mapping[str, int | str], version: int, now_us: int) -> dict[str, object]:
    """Return the values of `NEW`."""
    return {f"new_{name}": value for name, value in {"version": version, "updated_us": now_us, **marks}.items()}


_SAVED: Final = (
    update(receive_marks)
    .values(dict(NEW))
    .where(receive_marks.c.queue_id == bindparam("of_queue"), receive_marks.c.version == bindparam("seen"))
    .returning(receive_marks.c.queue_id)
)
_IS_SAVED: Final = exists(select(_SAVED.cte("saved").c.queue_id))
#: Returns a row if the marks are replaced.
SAVING: Final[Mapping[Dialect, Executed]] = {
    dialects.SQLITE: _SAVED,
    dialects.POSTGRESQL: select(cast(case((_IS_SAVED, "1"), else_=left_out(receive_marks.name)), Integer)),
}
