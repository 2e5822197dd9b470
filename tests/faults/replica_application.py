"""The application at each member: it keeps every entry with its position, in its own table."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text, insert

import lrq

#: The entries that a member has applied.
kept = Table(
    "kept",
    MetaData(),
    Column("branch", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("payload", LargeBinary, nullable=False),
)


def _keep(session: Any, source_id: str, entries: Sequence[Any]) -> None:
    del source_id
    for entry in entries:
        values = {"branch": entry.branch, "sequence": entry.sequence, "payload": entry.opaque_payload}
        session.execute(insert(kept).values(values))


keep = lrq.listener("policy", poll_interval=0.05)(_keep)
