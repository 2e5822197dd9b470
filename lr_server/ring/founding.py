"""The beginning of a token: three empty stores that count at once."""

import re
import secrets
from hashlib import blake2b
from typing import Final

from lr_server.protocol.agreement.effects import KeepRecord
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.record import MemberRecord, founders
from lr_server.ring.store import TokenStore
from queues.errors import ConfigurationError

_KEY: Final = re.compile("[0-9a-f]{32}")


def found(store: TokenStore, record: MemberRecord) -> None:
    """Let an empty store count as that of a founder; *record* is one of `founders`. May be repeated.

    Raises `ConfigurationError` for a store with ticks, or with the record of another member. An operator founds each
    member of a token once. A founder never replaces a lost store: a newcomer does, which asks the others. So a store
    whose witness knows an earlier one is refused too.
    """
    there = store.record()
    if there is not None:
        if (there.rank, there.store) != (record.rank, record.store):
            raise ConfigurationError(f"the store belongs to rank {there.rank} already: give each member its own file")
        return
    if store.history().end:
        raise ConfigurationError("the store has ticks of an earlier member: begin with an empty database")
    if store.is_witnessed:
        raise ConfigurationError(
            "the witness here knows an earlier store: for a lost disk run `lrq ring replace` and then `lrq serve`, "
            "for a new ring remove the witness first"
        )
    store.keep(KeepRecord(record))


def founding_key() -> str:
    """Return a new key, from which all three founders take the numbers of their stores."""
    return secrets.token_hex(16)


def record_of(key: str, rank: int) -> MemberRecord:
    """Return the record of the founder of *rank*; raise `ConfigurationError` for a *key* of another form."""
    if not _KEY.fullmatch(key):
        raise ConfigurationError("the key of a ring has 32 digits and letters a to f: copy it from the first member")
    digests = (blake2b(f"{key}/{each}".encode(), digest_size=8).digest() for each in RANKS)
    return founders([int.from_bytes(digest) % 2**62 for digest in digests])[rank]
