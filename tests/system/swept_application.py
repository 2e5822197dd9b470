"""An application whose errors are as careless as can be: their messages hold payloads."""

from sqlalchemy import text

import lrq

#: Parts of the payloads, the headers and the keys of this test. No output of lrq may have the first one.
PAYLOAD = "payload8c21XruleQ47"
HEADER = "header55d0WtraceK19"
ITEM_KEY = "item3e9fRkeyZ02"
PROVIDED = "provided61b7YrowJ88"
_QUICK = {"poll_interval": 0.05, "backoff": 0.01, "max_backoff": 0.2}


@lrq.listener("policy", on_failure="park", max_tries=2, **_QUICK)
def park(session, source_id, entries):
    """Refuse each payload with the word `poison`, and tell it all."""
    for entry in entries:
        if b"poison" in entry.opaque_payload:
            raise ValueError(f"cannot apply {entry.opaque_payload!r} with {dict(entry.headers)} as {entry.item_key}")


@lrq.listener("audit", **_QUICK)
def block(session, source_id, entries):
    """Have the database refuse each payload with a message that quotes the payload."""
    session.execute(text("SELECT CAST(:given AS INTEGER)"), {"given": entries[0].opaque_payload.decode()})
    session.execute(text("INSERT INTO nowhere VALUES (:given)"), {"given": entries[0].opaque_payload})


@block.on_error
def careless(source_id, error):
    """Raise an error with the message of the first one."""
    raise KeyError(str(error))


def provide(context):
    """Transmit the state as three rows, and tell the progress."""
    for number in range(3):
        context.transmit(f"{PROVIDED} {number}".encode())
