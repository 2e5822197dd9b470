"""An application that never gets to the end of its snapshot. Run as: endless.py <url> <scratch folder>."""

import sys
import threading
from pathlib import Path

import queues
from lr_client.snapshots import SnapshotContext, SnapshotTransmitter


class Endless:
    def provide_full_state_data(self, context: SnapshotContext) -> None:
        for _ in range(5_000):
            context.transmit(b"of the dead")
        threading.Event().wait()

    def cancel(self, context: SnapshotContext) -> None:
        pass


if __name__ == "__main__":
    transmitter = SnapshotTransmitter(
        queues.create_engine(sys.argv[1]),
        "policy",
        Endless(),
        poll_interval=0.02,
        lease_seconds=1.0,
        scratch_folder=Path(sys.argv[2]),
    )
    threading.Event().wait()
