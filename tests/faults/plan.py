"""The settings that the processes of one run share, in a file of the run's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import queues
from lr_server import Settings
from lr_server.session import table as session_table
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from tests.faults import ledger
from tests.system.world import QUICK

SOURCE, SINK = "paris", "tokyo"
LEASE_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """The settings of one source and one sink; all their processes use `folder`.

    Frames are small, so that a kill can fall between any two of them.
    """

    folder: str
    source_url: str
    sink_url: str
    seed: int
    initial_sync: str = "snapshot"
    batch_bytes: int = 512
    window_frames: int = 8
    sink_servers: tuple[str, ...] = ("sink-server",)

    def endpoint(self, server: str) -> str:
        """Return the address of a server."""
        return f"ipc://{self.folder}/{server}.socket"

    @property
    def no_more_writing(self) -> Path:
        """The path of a file that makes applications stop writing."""
        return Path(self.folder) / "no-more-writing"

    @property
    def _rows_allowed(self) -> Path:
        return Path(self.folder) / "rows-allowed"

    def allow_rows(self, rows: int) -> None:
        """Let source servers send snapshots up to row *rows*, until a later call allows more."""
        written = self._rows_allowed.with_suffix(".new")
        written.write_text(str(rows))
        written.replace(self._rows_allowed)

    def allows_row(self, row: int) -> bool:
        """Return whether source servers may send row *row* of a snapshot; without a limit, any row."""
        try:
            return row <= int(self._rows_allowed.read_text())
        except FileNotFoundError:
            return True

    def settings(self, server: str) -> Settings:
        """Return the settings of a server; a name that begins with `source` belongs to the source site."""
        if server.startswith("source"):
            peers = {SINK: ",".join(map(self.endpoint, self.sink_servers))}
            here: dict[str, Any] = {"site_id": SOURCE, "database_url": self.source_url, "peers": peers}
        else:
            here = {"site_id": SINK, "database_url": self.sink_url, "listen": [self.endpoint(server)]}
        return Settings(
            initial_sync=self.initial_sync, max_batch_bytes=self.batch_bytes, window_frames=self.window_frames,
            lease_seconds=LEASE_SECONDS, stall_seconds=2.0, **here, **QUICK,
        )  # fmt: skip

    def save(self) -> Self:
        (Path(self.folder) / "plan.json").write_text(json.dumps(asdict(self)))
        return self

    @classmethod
    def load(cls, folder: str) -> Self:
        return cls(**json.loads((Path(folder) / "plan.json").read_text()))


def set_up(plan: Plan) -> None:
    """Create the two sites and their applications' tables, and save the plan."""
    engines = []
    for url, site in ((plan.source_url, SOURCE), (plan.sink_url, SINK)):
        engine = queues.create_engine(url)
        queues.initialize(engine, site_id=site)
        engines.append(engine)
    ledger.prepare(*engines)
    # The session begins with the server, before the application has written an entry.
    session_table.ensure(engines[0], SessionKey(ClientName(ledger.CLIENT), SiteId(SINK)))
    for engine in engines:
        engine.dispose()
    plan.save()
