"""A site on a ring: three servers of this process, with a file each."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from lr_server import LogReplicationServer, Settings
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring.founding import found, founding_key, record_of
from lr_server.ring.seat import TOKEN
from lr_server.ring.store import TokenStore
from lr_server.ring.witness import StoreWitness


class RingServers:
    """The founded files with the settings of their servers; `servers` are the running ones, by rank."""

    def __init__(
        self,
        new_site: Callable[[str], Engine],
        folder: Path,
        *,
        site: str = "paris",
        ring: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Found all members of *site*.

        *ring* has further settings of the table `[ring]`, and *options* those of the servers.
        """
        self.engines = [new_site(site) for _ in RANKS]
        self.members, key = [f"ipc://{folder}/m{rank}" for rank in RANKS], founding_key()
        witnesses = [folder / f"{rank}.witness" for rank in RANKS]
        for rank, engine in enumerate(self.engines):
            with closing(TokenStore(engine, TOKEN, StoreWitness(witnesses[rank]))) as store:
                found(store, record_of(key, rank))
        self.settings = [
            Settings(
                site_id=site, database_url=engine.url.render_as_string(hide_password=False), ingest=True,
                listen=[self.members[rank]], producers={"*": {}}, **options,
                ring={"members": self.members, "rank": rank, "witness": witnesses[rank], **(ring or {})},
            )
            for rank, engine in enumerate(self.engines)
        ]  # fmt: skip
        self.servers: dict[int, LogReplicationServer] = {}

    def begin(self, *ranks: int) -> None:
        """Begin servers, also ones that were stopped."""
        for rank in ranks:
            self.servers[rank] = LogReplicationServer(self.settings[rank])
            self.servers[rank].start()

    def close(self, *ranks: int) -> None:
        """Stop servers; all of them without *ranks*."""
        for rank in ranks or [*self.servers]:
            self.servers.pop(rank).stop()
