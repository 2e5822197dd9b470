"""Sessions of the source, and links with a wish of an operator."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, Table, Text, text

from queues.database.tables.base import metadata

#: The source's record of each session; the sink's receive state is the truth. `lost_seq` is the end of the newest
#: trimmed tick with unacknowledged entries for the session. `replaced_total` counts entries that were not sent,
#: because a later entry of the same tick replaced them. The subscriber has applied the log up to `applied_seq` (NULL:
#: unknown). The session tells its sink the lease's generation plus `lead`; `leaps` counts the last changes of
#: `lead`, the newest of them at `leaped_us`. `window_percent` is the used share of the window, in steps of ten. Nothing
#: uses `released`, because a link without a claim has a wish.
sessions = Table(
    "lrq_sessions",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("acked_seq", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("lost_seq", BigInteger, nullable=False),
    Column("transferred_rows", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("applied_seq", BigInteger),
    Column("replaced_total", BigInteger, nullable=False, server_default=text("0")),
    Column("lead", BigInteger, nullable=False, server_default=text("0")),
    Column("leaps", Integer, nullable=False, server_default=text("0")),
    Column("leaped_us", BigInteger, nullable=False, server_default=text("0")),
    Column("released", Boolean, nullable=False, server_default=text("false")),
    Column("window_percent", Integer, nullable=False, server_default=text("0")),
)

#: The wishes of an operator, one row for each link with a wish; a link without a row runs.
link_wishes = Table(
    "lrq_link_wishes",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("wish", Text, nullable=False),
    Column("asked_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger, nullable=False, server_default="0"),
)

#: One row. `number` counts the changes of `link_wishes`. PostgreSQL has it in the sequence `lrq_link_change` too, which
#: a transaction with an old snapshot reads. SQLite: no receive queue gets an id up to `last_queue_id` again.
link_changes = Table(
    "lrq_link_changes",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("last_queue_id", BigInteger, nullable=False),
)
