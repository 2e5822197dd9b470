"""The beginning of a token: three empty stores that count at once."""

from lr_server.protocol.agreement.effects import KeepRecord
from lr_server.protocol.agreement.record import MemberRecord
from lr_server.ring.store import TokenStore
from queues.errors import ConfigurationError


def found(store: TokenStore, record: MemberRecord) -> None:
    """Let an empty store count as that of a founder; *record* is one of `founders`. May be repeated.

    Raises `ConfigurationError` for a store with ticks, or with the record of another member. An operator founds each
    member of a token once. A founder never replaces a lost store: a newcomer does, which asks the others.
    """
    there = store.record()
    if there is not None:
        if (there.rank, there.store) != (record.rank, record.store):
            raise ConfigurationError(f"the store belongs to rank {there.rank} already: give each member its own file")
        return
    if store.history().end:
        raise ConfigurationError("the store has ticks of an earlier member: begin with an empty database")
    store.keep(KeepRecord(record))
