"""The result of the demonstration."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from discovery.site_status import SiteStatus
from lrq.demo.airports import SOURCE
from lrq.demo.proof import SiteProof
from lrq.demo.views import View
from queues.send_snapshot import SnapshotState


@dataclass(frozen=True, slots=True)
class SnapshotMade:
    """The snapshots applied at one site: their number, and the size of the newest one."""

    count: int
    attempts: int
    rows: int
    payload_bytes: int


def snapshots_applied(status: SiteStatus) -> dict[str, SnapshotMade]:
    """Return the applied snapshots by destination, from the status of the source."""
    made: dict[str, SnapshotMade] = {}
    for found in sorted(status.snapshots, key=lambda found: found.requested_us):
        if found.state is SnapshotState.APPLIED:
            before = made.get(found.destination)
            count = 1 if before is None else before.count + 1
            made[found.destination] = SnapshotMade(count, found.attempt, found.rows, found.bytes)
    return made


@dataclass(frozen=True, slots=True)
class StoryReport:
    """All results of one run; `seconds_down` has the downtime of each killed site, in seconds."""

    seconds: float
    view: View
    log_seq: int
    proofs: Mapping[str, SiteProof]
    snapshots: Mapping[str, SnapshotMade]
    spark_version: str
    seconds_down: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """Whether every site began with a snapshot and holds exactly the rows and entries addressed to it."""
        return (
            all(proof.ok for proof in self.proofs.values())
            and self.snapshots.keys() == self.proofs.keys()
            and self.log_seq == self.view.entries
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq demo --json`."""
        view = self.view
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "sites": {SOURCE: {"role": "source", "airports": view.airports}}
            | {site: self._site(site) for site in self.proofs},
            "snapshot": {
                "engine": "spark",
                "version": self.spark_version,
                "sites": {site: asdict(made) for site, made in self.snapshots.items()},
            },
            "log_entries": {
                "written": view.entries,
                "delivered": view.delivered,
                "transactions": view.committed,
                "rolled_back": view.rolled_back,
                "payload_bytes": view.bytes_stored,
                "payload_bytes_as_copies": view.bytes_as_copies,
            },
        }

    def _site(self, site: str) -> dict[str, Any]:
        proof, seen = self.proofs[site], self.view.sites[site]
        return {
            "role": "sink",
            "ok": proof.ok,
            "airports": {
                "owed": proof.owed,
                "missing": proof.missing,
                "unexpected": proof.unexpected,
                "different": proof.different,
            },
            "entries": {
                "owed": proof.entries_owed,
                "applied": proof.entries_applied,
                "same_in_order": proof.same_entries_in_order,
                "left_over": proof.left_over,
                "in_snapshot": seen.applied - seen.delivered,
                "delivered": seen.delivered,
            },
            "lag": {"now": seen.behind, "most": seen.behind_most},
            "latency_ms": {"p50": round(seen.p50, 1), "p99": round(seen.p99, 1)},
            "seconds_down": round(self.seconds_down.get(site, 0.0), 1),
        }
