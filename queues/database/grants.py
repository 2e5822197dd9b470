"""Give a role of the database the rights that a part of the application needs."""

from sqlalchemy import Engine

from queues.database import dialects
from queues.database.grantees import Grantee
from queues.database.transactions import writing
from queues.errors import ConfigurationError


def statements(
    dialect_name: str, role: str, part: Grantee, *, schema: str | None = None, search_path: bool = False
) -> list[str]:
    """Return the statements for the newest schema of the tables; without *schema*, names follow the search path.

    Raises `ConfigurationError` for a database without roles, and for *search_path* without *schema*.
    """
    return dialects.named(dialect_name).grants(role, part, schema, search_path=search_path)


def grant(engine: Engine, role: str, part: Grantee, *, search_path: bool = False) -> str:
    """Give *role* the rights of *part* in one transaction, and return the schema of the tables; may be repeated.

    With *search_path*, new connections of *role* to this database find that schema too. Raises `ConfigurationError` for
    a database without roles, an unknown role, and an engine that does not own the tables.
    """
    dialect = dialects.of(engine)
    with writing(engine) as connection:
        schema = dialect.own_schema(connection)
        made = dialect.grants(role, part, schema, search_path=search_path)
        owner = dialect.owner(connection)
        if owner is not None:
            raise ConfigurationError(f"another role owns the tables: run `lrq grant` as {owner!r}")
        if not dialect.has_role(connection, role):
            raise ConfigurationError(
                f"the database has no role {role!r}: create it with CREATE ROLE, or correct the name"
            )
        for each in made:
            connection.exec_driver_sql(each.replace("%", "%%"))
    return schema
