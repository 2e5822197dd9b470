"""`lrq init`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lrq.cli.exit_codes import NoError
from lrq.cli.options import Config, Database, Json, Site

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lrq.cli.place import SitePlace


_NO_SITE: Final = "no site is named: give --site, set LRQ_SITE_ID, or write site_id in lrq.toml"


class DialectName(StrEnum):
    """The databases that lrq has tables for."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


def init(
    config: Config = None,
    database: Database = None,
    site: Site = None,
    sql: Annotated[bool, typer.Option("--sql", metavar="", help="Only print the DDL for an empty database.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="REV", help="With --sql: for tables of schema REV instead.")
    ] = None,
    transactional: Annotated[
        bool, typer.Option("--transactional", metavar="", help="With --sql: between BEGIN and COMMIT.")
    ] = False,
    dialect: Annotated[
        DialectName | None, typer.Option("--dialect", help="The database for --sql; by default the configured one.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", metavar="", help="Change nothing; exit with 0 if the schema fits, with 3 if not."),
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", metavar="", help="Only write a commented site file to FILE.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The file for --example, by default lrq.toml; `-` is stdout."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a site's tables, or migrate them.

    The command may be repeated, and several processes may run it at once. `lrq serve` changes the schema only with
    --init.
    """
    from lrq.cli.place import engine_of, locate

    if example:
        _write_example(file or Path("lrq.toml"))
        return
    if file:
        raise typer.BadParameter("FILE goes with --example; --config names the file of a site")

    if sql and check:
        raise typer.BadParameter("--sql and --check exclude each other")
    if not sql and (dialect or start or transactional):
        raise typer.BadParameter("--dialect, --from and --transactional go with --sql")
    if sql:
        from queues.database.migrations import ddl
        from queues.database.schemas import schema_of

        url = None if dialect else locate(config, database, site).url
        chosen = dialect.value if dialect else url.get_backend_name() if url else ""
        schema = schema_of(url) if url else None
        typer.echo(ddl(chosen, start=start, transactional=transactional, schema=schema), nl=False)
        return
    place = locate(config, database, site)
    if check:
        _check(place, as_json=as_json)
        return
    _require_site(place)
    with engine_of(place, must_exist=False) as engine:
        _initialize(engine, place, as_json=as_json)


def _write_example(file: Path) -> None:
    from lrq.cli.example_file import EXAMPLE
    from queues.errors import ConfigurationError

    if str(file) == "-":
        typer.echo(EXAMPLE, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(EXAMPLE)
    except FileExistsError:
        raise ConfigurationError(f"{file} exists, and is not replaced: name another file, or `-`") from None
    typer.echo(f"{file}: written; correct it, then run `lrq init --config {file}`")


def _check(place: "SitePlace", *, as_json: bool) -> None:
    from lrq.cli.output import emit
    from lrq.cli.place import engine_of
    from queues.database import schema
    from queues.errors import MissingDependencyError, SetupError

    facts: dict[str, Any] = {"database": place.shown, "schema": None, "needs": schema.SCHEMA}
    try:
        with engine_of(place) as engine:
            facts["schema"] = _version(engine)
            site = schema.check(engine, site_id=place.site).site_id
    except MissingDependencyError:
        raise
    except SetupError as error:
        if as_json:
            emit(facts | {"fits": False, "site": None, "reason": str(error)})
        raise NoError(str(error)) from error
    if as_json:
        emit(facts | {"fits": True, "site": site, "reason": ""})
    else:
        typer.echo(f"{place.shown} fits: it belongs to site {site} and has schema {facts['schema']}")


def _require_site(place: "SitePlace") -> None:
    """Raise `ConfigurationError` before SQLite makes an empty file, if no site is named for a new one."""
    from queues.database.urls import file_of
    from queues.errors import ConfigurationError

    file = file_of(place.url)
    if place.site is None and file is not None and not file.exists():
        raise ConfigurationError(_NO_SITE)


def _initialize(engine: "Engine", place: "SitePlace", *, as_json: bool) -> None:
    import queues
    from lrq.cli.known_names import listed
    from lrq.cli.output import emit
    from queues import look_alikes
    from queues.database.schema import SCHEMA

    before = _version(engine)
    site = queues.initialize(engine, site_id=place.site or _known_site(engine)).site_id
    for pair in look_alikes.look_alikes([site, *listed("peers", place.written)]):
        typer.echo(f"lrq: warning: {look_alikes.warning(pair)}", err=True)
    action = "created" if before is None else "migrated" if before < SCHEMA else "unchanged"
    stands = max(before or SCHEMA, SCHEMA)
    if as_json:
        emit({"site": site, "database": place.shown, "schema": stands, "before": before, "action": action})
        return
    words = {
        "created": f"created the tables (schema {SCHEMA})",
        "migrated": f"migrated the tables from schema {before} to {SCHEMA}",
        "unchanged": f"the tables are there already (schema {stands})",
    }
    typer.echo(f"{place.shown}: {words[action]}, site {site}")


def _version(engine: "Engine") -> str | None:
    from queues.database import schema
    from queues.database.transactions import reading
    from queues.errors import NotInitializedError

    try:
        with reading(engine) as connection:
            return schema.version(connection)
    except NotInitializedError:
        return None


def _known_site(engine: "Engine") -> str:
    """Return the site id in the database, so that a migration needs no --site."""
    from queues.database import schema
    from queues.database.transactions import reading
    from queues.errors import ConfigurationError, NotInitializedError

    try:
        with reading(engine) as connection:
            return schema.site(connection, None).site_id
    except NotInitializedError:
        raise ConfigurationError(_NO_SITE) from None
