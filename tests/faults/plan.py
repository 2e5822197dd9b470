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
LEASE_SECONDS = 1.0


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

    @property
    def address(self) -> str:
        """Where the sink is reached: a link, which may be pointed at another server's socket."""
        return f"ipc://{self.folder}/sink.sock"

    @property
    def no_more_writing(self) -> Path:
        """Applications end to write when this is there."""
        return Path(self.folder) / "no-more-writing"

    def settings(self, site: str, listen: str) -> Settings:
        url = self.source_url if site == SOURCE else self.sink_url
        there: dict[str, Any] = {"peers": {SINK: self.address}} if site == SOURCE else {"listen": [listen]}
        own: dict[str, Any] = {
            "initial_sync": self.initial_sync,
            "max_batch_bytes": self.batch_bytes,
            "window_frames": self.window_frames,
        }
        own["stall_seconds"] = 2.0
        return Settings(site_id=site, database_url=url, lease_seconds=LEASE_SECONDS, **there, **own, **QUICK)

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
