"""The part of the `Dialect` port for engines and tables: connections, schemas, roles and versions."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import URL, Connection, Engine, MetaData

from queues.database.grantees import Grantee


class Setup(Protocol):
    """Engines and tables."""

    @property
    def own_tables(self) -> MetaData:
        """The tables that only this database has."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether the tables may stand in a schema of their own."""
        ...

    def preamble(self, schema: str | None) -> str:
        """Return SQL to run before a DBA creates the tables in *schema* (None: the first of the search path)."""
        ...

    def postamble(self, schema: str | None) -> str:
        """Return SQL to run after a DBA has removed the tables from *schema*: it drops an empty schema."""
        ...

    def prepare(self, engine: Engine) -> None:
        """Give each new connection of *engine* the settings of lrq's own processes."""
        ...

    def connect_within(self, url: URL, seconds: int) -> Mapping[str, object]:
        """Return driver arguments that limit the time to connect; none if *url* has its own limit."""
        ...

    def connect_as(self, url: URL, name: str) -> Mapping[str, object]:
        """Return driver arguments that give connections a *name* for administrators; none if *url* has a name."""
        ...

    def exclusive(self, engine: Engine, schema: str | None = None) -> AbstractContextManager[Connection]:
        """Open a transaction; exclusive transactions on the same database never overlap, in all processes.

        Names are those of *schema*, as in `migrating`. Raises `ConfigurationError` for a version of the database that
        is too old.
        """
        ...

    def migrating(self, connection: Connection, schema: str | None = None) -> AbstractContextManager[None]:
        """Make the open transaction of *connection* exclusive until it ends, and wait only briefly for tables.

        Within the block, names are those of *schema*, which is created if missing. None changes no names. Raises the
        error of `exclusive`.
        """
        ...

    def drop_schema(self, connection: Connection, schema: str) -> None:
        """Drop *schema* if it is empty and the role may drop it."""
        ...

    def grants(self, role: str, part: Grantee, schema: str | None, *, search_path: bool) -> list[str]:
        """Return the statements that give *role* the rights of *part* on the tables in *schema*.

        With *search_path*, new connections of *role* to this database find the names of *schema* too. Raises
        `ConfigurationError` for a database without roles.
        """
        ...

    def own_schema(self, connection: Connection) -> str:
        """Return the schema in which *connection* finds the tables; empty if it finds none."""
        ...

    def owner(self, connection: Connection) -> str | None:
        """Return the role that owns the tables if the role of *connection* may not act as that role; otherwise None."""
        ...

    def has_role(self, connection: Connection, role: str) -> bool:
        """Tell whether the database has *role*."""
        ...

    def hidden_in(self, connection: Connection) -> str | None:
        """Return the schema with lrq's tables if *connection* does not find them by their names; otherwise None."""
        ...

    def borrow(self, driver: object) -> Engine:
        """Return an engine whose only connection is *driver*, an open connection that an application owns.

        Raises `ConfigurationError` for a driver's connection that lrq does not support.
        """
        ...

    def lacks(self, connection: Connection) -> list[str]:
        """Name the missing parts of the schema that are neither tables nor columns."""
        ...

    def untriggered(self, connection: Connection) -> list[str]:
        """Name the segments of the log, and the helper table, on which the ordering trigger does not always fire."""
        ...

    def unlogged(self, connection: Connection) -> list[str]:
        """Name the tables of lrq that a crash empties, and the sequences that a crash sets back."""
        ...

    def hiding(self, connection: Connection) -> list[str]:
        """Name the tables of lrq from whose rows the database keeps the role of *connection*."""
        ...

    def altering(self, connection: Connection) -> list[str]:
        """Name the tables of lrq whose rows may be changed or left out in silence.

        A trigger or rule of others does that, and so does a view, a foreign table or a detached partition.
        """
        ...

    def incarnation(self, connection: Connection) -> str:
        """Return a text that changes when the database is restored, promoted or copied: see `lrq_branches`."""
        ...
