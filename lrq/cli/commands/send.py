"""`lrq send`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lrq.cli.options import AwaitTables, Config, Database, Json, Site, Strict, To


def send(
    to: To,
    client: Annotated[str, typer.Option("--client", metavar="NAME", help="The application stream, such as policy.")],
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            help="The payload as text; @FILE for the content of a file; - for the standard input (default).",
        ),
    ] = None,
    item_key: Annotated[
        str | None,
        typer.Option(
            "--item-key",
            metavar="KEY",
            help="The item that the payload replaces: earlier payloads of the item may never be sent.",
        ),
    ] = None,
    partition_key: Annotated[
        str | None, typer.Option("--partition-key", metavar="KEY", help="Stored with the entry.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header of the entry; may be repeated."),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="How long to wait until every destination has the entry durably."
        ),
    ] = None,
    strict: Strict = False,
    config: Config = None,
    database: Database = None,
    site: Site = None,
    await_tables: AwaitTables = 5.0,
    as_json: Json = False,
) -> None:
    """Transmit one payload, in a transaction of its own, and print its token.

    The limit of a payload is max_payload_bytes of the site's file. A destination or client that is unknown here gets a
    warning: an entry for a misspelt site reaches no site.

    Exit code 3 means that the entry is committed, but did not reach every destination in time. A closed or full stdout
    ends the command so, too.
    """
    from lr_client import RoutingQueueSenderClient
    from lrq.cli.exit_codes import telling
    from lrq.cli.known_names import check_names
    from lrq.cli.output import emit
    from lrq.cli.place import max_payload_bytes, opened
    from queues.clock import SYSTEM_CLOCK
    from queues.database.transactions import writing
    from queues.errors import WaitTimeoutError

    content, headers = _content(payload), headers_of(header or [])
    with opened(config, database, site, wait=await_tables) as here:
        sender = RoutingQueueSenderClient(client, max_payload_bytes=max_payload_bytes(here.place))
        check_names(here, sites=[each for each in to if each != here.site], clients=[client], strict=strict)
        with writing(here.engine) as connection:
            token = sender.transmit_log_entry_message(
                connection, content, to, item_key=item_key, partition_key=partition_key, headers=headers
            )
        facts = {
            "token": str(token), "site": here.site, "client": client, "destinations": sorted(set(to)),
            "bytes": len(content), "replicated": None, "seconds": None,
        }  # fmt: skip
        committed = f"the entry is committed as {token}"
        with telling(committed):
            if not as_json:
                typer.echo(str(token))
            elif wait is None:
                emit(facts)
        if wait is None:
            return
        began = SYSTEM_CLOCK.monotonic()
        replicated = False
        try:
            sender.wait_replicated(here.engine, token, to, wait)
            replicated = True
        except WaitTimeoutError as error:
            raise WaitTimeoutError(f"the entry is committed, but {error}") from error
        finally:
            if as_json:
                seconds = round(SYSTEM_CLOCK.monotonic() - began, 3)
                with telling(committed):
                    emit(facts | {"replicated": replicated, "seconds": seconds})


def headers_of(given: list[str]) -> dict[str, str]:
    """Return the headers of options NAME=VALUE; a malformed or repeated one is an error of the command line."""
    headers: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name in headers:
            problem = "is given twice" if equals else "has no '='"
            raise typer.BadParameter(f"the header {name!r} {problem}: write each one once, as NAME=VALUE")
        headers[name] = value
    return headers


def _content(payload: str | None) -> bytes:
    if payload is None or payload == "-":
        if payload is None and sys.stdin.isatty():
            raise typer.BadParameter("there is no payload: write it, or @FILE, or - for the standard input")
        return sys.stdin.buffer.read()
    if payload.startswith("@"):
        return Path(payload[1:]).read_bytes()
    return payload.encode("utf-8", "surrogateescape")
