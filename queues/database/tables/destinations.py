"""Destinations of entries: their sets, and the known, the unknown and the dropped ones."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text

from queues.database.tables.base import metadata

#: The dictionary of destination sets, with every set that occurs in a tick. A `shared` set is never deleted, because
#: rows may hold only its number; the number of shared sets is limited.
tag_sets = Table(
    "lrq_tag_sets",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("client", Text, nullable=False),
    Column("destinations", Text, nullable=False),
    Column("shared", Boolean, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
)

tag_set_members = Table(
    "lrq_tag_set_members",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("tag_set", BigInteger, primary_key=True, autoincrement=False),
    Index("ix_lrq_tag_set_members_tag_set", "tag_set"),
)

#: One row, written by the server: the names of its peers and clients, each list as one text. Empty `clients` mean every
#: client. With `known_only`, senders refuse every other destination.
known_sites = Table(
    "lrq_known_sites",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("peers", Text, nullable=False),
    Column("clients", Text, nullable=False),
    Column("known_only", Boolean, nullable=False),
)

#: The destinations without a session whose entries were trimmed: see `queues.send_log.strangers`.
strangers = Table(
    "lrq_strangers",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
)

#: The number of entries that were trimmed for each destination that was no peer, until an operator forgets it.
dropped_entries = Table(
    "lrq_dropped_entries",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("entries", BigInteger, nullable=False),
    Column("dropped_us", BigInteger, nullable=False),
)
