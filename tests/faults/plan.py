"""What the processes of one run share: databases, addresses, times. Written down in the run's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import queues
from lr_server import Settings
from tests.faults import ledger
from tests.system.world import QUICK

SOURCE, SINK = "paris", "tokyo"
LEASE_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """One source and one sink; every process of them works in `folder`.

    Frames are small, so that there is always something between two of them.
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
        """Where a server listens."""
        return f"ipc://{self.folder}/{server}.socket"

    @property
    def no_more_writing(self) -> Path:
        """Applications end to write when this is there."""
        return Path(self.folder) / "no-more-writing"

    @property
    def _rows_allowed(self) -> Path:
        return Path(self.folder) / "rows-allowed"

    def allow_rows(self, rows: int) -> None:
        """Let source servers send a snapshot up to this row, until more are allowed."""
        written = self._rows_allowed.with_suffix(".new")
        written.write_text(str(rows))
        written.replace(self._rows_allowed)

    def allows_row(self, row: int) -> bool:
        """Whether source servers may send this row of a snapshot: any, as long as no limit was set."""
        try:
            return row <= int(self._rows_allowed.read_text())
        except FileNotFoundError:
            return True

    def settings(self, server: str) -> Settings:
        """Return the settings of a server; what its name begins with tells its site."""
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
    """Make the two sites and their applications' tables."""
    engines = []
    for url, site in ((plan.source_url, SOURCE), (plan.sink_url, SINK)):
        engine = queues.create_engine(url)
        queues.initialize(engine, site_id=site)
        engines.append(engine)
    ledger.prepare(*engines)
    for engine in engines:
        engine.dispose()
    plan.save()
