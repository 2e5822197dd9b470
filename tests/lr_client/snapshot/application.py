"""An application that waits in the middle of its snapshot. Run as: application.py <url> <folder>.

The application continues when the file `go` is in the folder, and writes its result to the file `outcome`.
"""

import sys
from pathlib import Path

import queues
from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter
from tests.waiting import eventually


class Waiting:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        try:
            for _ in range(5_000):
                context.transmit(b"of the application")
            eventually((self._folder / "go").exists, timeout=300)
            context.mark_completed()
        except Exception as error:
            self._leave(type(error).__name__)
            raise
        self._leave("completed")

    def cancel(self, context: SnapshotContext) -> None:
        pass

    def _leave(self, outcome: str) -> None:
        (self._folder / "new").write_text(outcome)
        (self._folder / "new").rename(self._folder / "outcome")


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    SnapshotTransmitter(
        queues.create_engine(sys.argv[1]),
        "policy",
        Waiting(folder),
        poll_interval=0.02,
        lease_seconds=1.0,
        scratch_folder=folder,
    )
    eventually((folder / "outcome").exists, timeout=300)
