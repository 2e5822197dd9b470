"""The settings of a run with several servers: one source, two sinks, and many clients."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import queues
from lr_server import Settings
from lr_server.session import table as session_table
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from tests.faults import site_ledger
from tests.faults.plan import LEASE_SECONDS
from tests.system.world import QUICK

SOURCE = "paris"
SINKS = ("lima", "tokyo")
#: The sink that attaches itself to the servers of the source.
ATTACHED = "tokyo"


@dataclass(frozen=True)
class SitePlan:
    """All processes of a run use `folder`; a server's name is its site and a number, such as `paris-2`."""

    folder: str
    urls: dict[str, str]
    seed: int
    servers: int = 3
    sink_servers: int = 2
    clients: int = 12
    producers: int = 2
    lease_seconds: float = LEASE_SECONDS

    @property
    def client_names(self) -> list[str]:
        """The clients; each has a session to every sink."""
        return [f"client{number}" for number in range(self.clients)]

    @property
    def source_names(self) -> list[str]:
        """The servers of the source."""
        return [f"{SOURCE}-{number}" for number in range(self.servers)]

    @property
    def server_names(self) -> list[str]:
        """The servers of all sites."""
        return self.source_names + [f"{site}-{number}" for site in SINKS for number in range(self.sink_servers)]

    @property
    def producer_names(self) -> list[str]:
        """The producers, which have no database."""
        return [f"producer-{number}" for number in range(self.producers)]

    def client_of(self, producer: str) -> str:
        """Return the client of a producer; the client has a writer's entries too."""
        return self.client_names[int(producer.rpartition("-")[2])]

    @property
    def source_endpoints(self) -> str:
        """The endpoints of the source's servers, between commas."""
        return ",".join(map(self._endpoint, self.source_names))

    @property
    def no_more_writing(self) -> Path:
        """The path of a file that makes writers stop."""
        return Path(self.folder) / "no-more-writing"

    def url_of(self, name: str) -> str:
        """Return the database of a process; writers and producers belong to the source."""
        return self.urls.get(name.partition("-")[0], self.urls[SOURCE])

    def settings(self, name: str) -> Settings:
        """Return the settings of the server *name*."""
        site = name.partition("-")[0]
        here: dict[str, Any] = {"listen": [self._endpoint(name)]}
        if site == SOURCE:
            peers = {sink: self._reached_at(sink) for sink in SINKS}
            here |= {"peers": peers, "ingest": True, "producers": {"*": {}}}
        elif site == ATTACHED:
            here = {"attach": {SOURCE: self.source_endpoints}}
        return Settings(
            site_id=site, database_url=self.urls[site], initial_sync="log",
            lease_seconds=self.lease_seconds, stall_seconds=2.0, **here, **QUICK,
        )  # fmt: skip

    def _reached_at(self, sink: str) -> str:
        if sink == ATTACHED:
            return f"attached:{sink}"
        return ",".join(self._endpoint(f"{sink}-{number}") for number in range(self.sink_servers))

    def _endpoint(self, name: str) -> str:
        return f"ipc://{self.folder}/{name}.socket"

    def save(self) -> Self:
        (Path(self.folder) / "plan.json").write_text(json.dumps(asdict(self)))
        return self

    @classmethod
    def load(cls, folder: str) -> Self:
        return cls(**json.loads((Path(folder) / "plan.json").read_text()))


def set_up(plan: SitePlan) -> None:
    """Create the sites with the tables that watch them, the sessions of all clients, and save the plan."""
    for site in (SOURCE, *SINKS):
        engine = queues.create_engine(plan.urls[site])
        queues.initialize(engine, site_id=site)
        if site == SOURCE:
            site_ledger.watch_leaders(engine)
            for client in plan.client_names:
                for sink in SINKS:
                    session_table.ensure(engine, SessionKey(ClientName(client), SiteId(sink)))
        else:
            site_ledger.watch_marks(engine)
        engine.dispose()
    plan.save()
