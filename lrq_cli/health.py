"""What is not well at a site, in sentences, from what `read_status` tells. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lr_server.states import LEFT_OUT
from lrq_cli.words import duration, plural

_NORMAL: Final = "log-entry sync"
_GIVEN_UP: Final = frozenset({"failed"})


def troubles(status: Mapping[str, Any]) -> list[str]:
    """Return a sentence for everything that is stalled or failed; none when all is well."""
    return [*_server(status), *_sessions(status), *_snapshots(status), *_queues(status)]


def remarks(status: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every session that is on its way to the log-entry sync, and not in trouble yet."""
    return [
        f"{_name(session)}: {_state(session)}"
        for session in status["sessions"]
        if session["state"] not in (_NORMAL, LEFT_OUT, *_GIVEN_UP) and not session["stalled"]
    ]


def server_is_alive(status: Mapping[str, Any]) -> bool:
    """Tell whether some server works for the site."""
    return any(owner["lease"] == "server" and owner["alive"] for owner in status["owners"])


def _server(status: Mapping[str, Any]) -> Iterator[str]:
    owed = any(session["lag"]["entries"] for session in status["sessions"])
    if (owed or status["log"].get("waiting", 0)) and not server_is_alive(status):
        yield "no server works for this site, though it owes entries: run `lrq serve`"


def _sessions(status: Mapping[str, Any]) -> Iterator[str]:
    for session in status["sessions"]:
        name = _name(session)
        if session["state"] in _GIVEN_UP:
            yield f"{name} has failed: {session['reason']}"
        elif session["stalled"]:
            lag = session["lag"]
            waiting = f"{plural(lag['entries'], 'entry', 'entries')}, the oldest for {duration(lag['seconds'])}"
            yield f"{name} is stalled with {waiting} ({_state(session)})"


def _name(session: Mapping[str, Any]) -> str:
    return f"{session['client']} to {session['destination']}"


def _state(session: Mapping[str, Any]) -> str:
    return f"{session['state']}, {session['reason']}" if session["reason"] else str(session["state"])


def _snapshots(status: Mapping[str, Any]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for snapshot in status["snapshots"]:  # newest first: only that one counts
        session = (snapshot["client"], snapshot["destination"])
        if session in seen:
            continue
        seen.add(session)
        name = f"the snapshot of {snapshot['client']} for {snapshot['destination']}"
        if snapshot["state"] == "failed":
            yield f"{name} has failed: {snapshot['error']}"
        elif snapshot["state"] == "requested" and snapshot["error"]:
            yield f"{name} has failed {plural(snapshot['attempt'], 'time')} and is tried again: {snapshot['error']}"


def _queues(status: Mapping[str, Any]) -> Iterator[str]:
    for queue in status["receive_queues"]:
        if queue["failure"]:
            tries = plural(queue["failure"]["tries"], "time")
            yield f"{queue['name']} does not get on, refused {tries}: {queue['failure']['error']}"
        if queue["parked"]:
            parked = plural(queue["parked"], "parked entry", "parked entries")
            yield f"{queue['name']} has {parked}: see `lrq park list`"
