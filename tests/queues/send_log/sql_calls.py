"""Transmit as an application without Python does: the function on PostgreSQL, the view on SQLite."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, text

_FUNCTION = text("SELECT lrq_transmit(:client, :payload, :destinations, :item_key, :partition_key, :headers)")
_VIEW = text(
    "INSERT INTO lrq_transmit (client, payload, destinations, item_key, partition_key, headers, transaction_key) "
    "VALUES (:client, :payload, :destinations, :item_key, :partition_key, :headers, :transaction_key)"
)
_TOKEN = text("SELECT token FROM lrq_transmitted")


def sql_transmit(
    connection: Connection,
    payload: object,
    destinations: Sequence[str],
    *,
    client: str = "policy",
    item_key: str | None = None,
    partition_key: str | None = None,
    headers: object = None,
    transaction_key: str | None = None,
) -> str:
    """Transmit one entry; return the text of its token. PostgreSQL needs no *transaction_key*."""
    values = {"client": client, "payload": payload, "item_key": item_key, "partition_key": partition_key}
    values["headers"] = None if headers is None else json.dumps(headers)
    if connection.dialect.name == "sqlite":
        values |= {"destinations": ",".join(destinations), "transaction_key": transaction_key}
        connection.execute(_VIEW, values)
        return str(connection.execute(_TOKEN).scalar_one())
    typed = text(str(_FUNCTION).replace(":destinations", "CAST(:destinations AS text[])").replace(
        ":headers", "CAST(:headers AS jsonb)"
    ))  # fmt: skip
    return str(connection.execute(typed, values | {"destinations": list(destinations)}).scalar_one())
