"""`lrq produce`."""

from pathlib import Path
from typing import Annotated

import typer

from lrq.cli.options import Config, Json, To

_TLS = "TLS, for endpoints tls://…"


def produce(
    to: To,
    client: Annotated[str, typer.Option("--client", metavar="NAME", help="The application stream, such as policy.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files to send, - for the standard input (default)."),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            "-e",
            metavar="URL",
            help="A server of the site, several between commas. Default: `listen` in the site's file.",
        ),
    ] = None,
    ring: Annotated[
        list[str] | None,
        typer.Option(
            "--ring",
            metavar="SITE=URL",
            help="One of several rings, repeated for each; the one of --partition-key gets the messages.",
        ),
    ] = None,
    producer: Annotated[
        str | None,
        typer.Option(
            "--producer",
            "-p",
            metavar="NAME",
            help="The name under which requests are numbered. Default: a new name for each run.",
        ),
    ] = None,
    from_sequence: Annotated[
        int | None,
        typer.Option(
            "--from-sequence",
            metavar="N",
            min=1,
            help="The number of the first message; messages with stored numbers are not sent again.",
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", metavar="", help="Each file is one message; otherwise each line is one.")
    ] = False,
    group: Annotated[
        int,
        typer.Option("--group", metavar="N", min=1, help="Messages in one source transaction, which has one number."),
    ] = 1,
    item_key: Annotated[
        str | None,
        typer.Option("--item-key", metavar="KEY", help="The item that each payload replaces."),
    ] = None,
    partition_key: Annotated[
        str | None, typer.Option("--partition-key", metavar="KEY", help="Stored with each entry.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header of each entry; may be repeated."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for each answer.")
    ] = 30.0,
    tls_certificate: Annotated[
        Path | None,
        typer.Option("--tls-certificate", metavar="FILE", help="The producer's certificate.", rich_help_panel=_TLS),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The private key.", rich_help_panel=_TLS)
    ] = None,
    tls_authority: Annotated[
        Path | None,
        typer.Option("--tls-authority", metavar="FILE", help="The authority of the server.", rich_help_panel=_TLS),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send lines or files to a server of a site, and print number and position of each.

    The command needs no database: the server has `ingest = true`. Each message is a source transaction of its own,
    stored in order.

    After a crash or an error, the same command goes on without doubles if it has `--producer` and `--from-sequence`.
    Give each file a producer name of its own, and `--from-sequence 1`: the numbers are those of the lines.

    Exit code 3 means that a message without an answer may be stored. A closed or full stdout ends the command so.
    """
    from lr_client.producer import Producer
    from lrq.cli.commands.send import headers_of
    from lrq.cli.exit_codes import telling
    from lrq.cli.produced_lines import ProduceOptions, print_produced, produce_all
    from lrq.cli.producer_place import located, ring_endpoint

    if ring:
        if endpoint:
            raise typer.BadParameter("--ring and --endpoint both name servers: give one of the two options")
        endpoint = ring_endpoint(ring, partition_key)
    place = located(config, endpoint, (tls_certificate, tls_key, tls_authority))
    options = ProduceOptions(
        files=tuple(files or [Path("-")]), to=tuple(to), item_key=item_key, partition_key=partition_key,
        headers=headers_of(header or []), whole=whole, group=group, first=from_sequence, timeout=timeout,
    )  # fmt: skip
    if from_sequence is not None and producer is None:
        raise typer.BadParameter("--from-sequence counts the messages of one producer: name the producer")
    with Producer(
        place.endpoints,
        client=client,
        producer=producer or place.new_name(),
        tls_certificate=place.certificate,
        tls_key=place.key,
        tls_authority=place.authority,
    ) as sender:
        for produced in produce_all(sender, options):
            with telling(
                f"message {produced.sequence} is stored, and later ones may be stored or not: the same command goes on "
                "with --producer and --from-sequence"
            ):
                print_produced(produced, as_json=as_json)
