"""Tell names of sites and clients that a site does not know: most of them are misspelt."""

import difflib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import typer
from sqlalchemy import Connection

from lrq.cli.place import OpenSite
from queues import names, send_snapshot
from queues.database.peers import read_table
from queues.database.transactions import reading
from queues.errors import SetupError, UsageError
from queues.receive.queue_marks import every_queue
from queues.send_log.known_sites import read_known
from queues.send_log.reads import clients_seen
from queues.send_log.sessions import active_keys

#: The least similarity of a misspelt name and the right one, from 0 to 1.
_NEAR: Final = 0.6
#: The setting `topology` of a site whose peers are those of `lrq peer`.
_TABLE: Final = "table"


def check_names(here: OpenSite, *, sites: Iterable[str] = (), clients: Iterable[str] = (), strict: bool) -> None:
    """Warn on stderr about each of *sites* and *clients* that is unknown here; with *strict*, raise `UsageError`.

    A site is known by a session, or as a peer. Peers are those of the file, of the last server, and of the table in
    use. A client is known as one of the setting `clients`. Without that setting, a client is known once entries,
    snapshots or a provider of the client are here. The first client of a site causes no warning, and no site does
    before the first server.
    A role that may not read these names, such as one of `lrq grant --as sender`, gets no warning.
    Raises `InvalidNameError` for a malformed name, and with *strict* `SetupError` for such a role.
    """
    asked_sites, asked_clients = [*map(names.site_id, sites)], [*map(names.client_name, clients)]
    if not asked_sites and not asked_clients:
        return
    try:
        with reading(here.engine) as connection:
            known = read_known(connection)
            written = (*listed("peers", here.place.written), *listed("replicas", here.place.written))
            known_sites = {*written, *(key.destination for key in active_keys(connection))}
            known_sites |= known.peers if known else frozenset()
            if (os.environ.get("LRQ_TOPOLOGY") or here.place.written.get("topology")) == _TABLE:
                # The servers take over a change of the table within a second, and a sender may be quicker.
                table = read_table(connection)
                known_sites |= {*table.by_site, *table.replicas}
            known_clients = set(listed("clients", here.place.written)) or _clients_of(connection)
    except SetupError:
        if strict:
            raise
        return
    # Before the first server has worked, no record tells the peers of its command line.
    if known is None and not known_sites and not strict:
        asked_sites = []
    if not known_clients and not strict:
        asked_clients = []
    unknown = [
        *unknown_names("site", asked_sites, known_sites, "no peer and no session has that name"),
        *unknown_names("client", asked_clients, known_clients, "no entry and no setting has that name"),
    ]
    if unknown and strict:
        raise UsageError("; ".join(unknown))
    for sentence in unknown:
        typer.echo(f"lrq: warning: {sentence}", err=True)


def _clients_of(connection: Connection) -> set[str]:
    offering = (provider.client for provider in send_snapshot.providers(connection))
    receiving = (queue.client for queue in every_queue(connection))
    sending = (key.client for key in active_keys(connection))
    return {*offering, *receiving, *sending, *clients_seen(connection)}


def unknown_names(kind: str, asked: Sequence[str], known: Collection[str], why: str) -> list[str]:
    """Return one sentence for each of *asked* that is not *known*, with the most similar known name. Pure."""
    sentences = []
    for name in dict.fromkeys(asked):
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1, cutoff=_NEAR)
            hint = f": did you mean {near[0]!r}?" if near else ""
            sentences.append(f"{kind} {name!r} is not known here, because {why}{hint}")
    return sentences


def listed(setting: str, written: Mapping[str, object]) -> list[str]:
    """Return the names in the setting `peers`, `replicas` or `clients`: in its variable, otherwise in the site's file.

    The server checks these values; a value of another form has no names here.
    """
    value: object = os.environ.get(f"LRQ_{setting.upper()}") or written.get(setting)
    if isinstance(value, str):
        value = _parsed(value)
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | dict) else []


def _parsed(text: str) -> object:
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError:
            return []
    return [item.strip() for item in text.split(",")]
