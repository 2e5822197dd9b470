"""What the demonstration has shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from lrq_cli.demo.airports import SOURCE
from lrq_cli.demo.proof import SiteProof
from lrq_cli.demo.views import View


@dataclass(frozen=True, slots=True)
class SnapshotMade:
    """One snapshot: what Spark has built for a site."""

    site: str
    state: str
    attempts: int
    rows: int
    payload_bytes: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Read it from what `lrq status` tells of a snapshot."""
        return cls(found["destination"], found["state"], found["attempt"], found["rows"], found["bytes"])


@dataclass(frozen=True, slots=True)
class Report:
    """All that is told at the end. `seconds_down` tells which sites were killed, and for how long they were away."""

    seconds: float
    view: View
    log_seq: int
    proofs: Mapping[str, SiteProof]
    snapshots: Sequence[SnapshotMade]
    spark_version: str
    seconds_down: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """Tell whether every site ended with exactly what it was owed, after one snapshot and the log."""
        each_site_has_one = sorted(made.site for made in self.snapshots) == sorted(self.proofs)
        all_applied = all(made.state == "applied" for made in self.snapshots)
        nothing_else_in_the_log = self.log_seq == self.view.entries
        return (
            all(proof.ok for proof in self.proofs.values())
            and each_site_has_one
            and all_applied
            and nothing_else_in_the_log
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as `lrq demo --json` prints it."""
        view = self.view
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "sites": {SOURCE: {"role": "source", "airports": view.airports}}
            | {site: self._site(site) for site in self.proofs},
            "snapshot": {
                "engine": "spark",
                "version": self.spark_version,
                "rows": sum(made.rows for made in self.snapshots),
                "payload_bytes": sum(made.payload_bytes for made in self.snapshots),
                "sites": {
                    made.site: {"state": made.state, "attempts": made.attempts, "rows": made.rows}
                    for made in self.snapshots
                },
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
