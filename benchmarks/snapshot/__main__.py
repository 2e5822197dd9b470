"""The command `make bench-snapshot`, which prints one table."""

import argparse
import json
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.snapshot.postgres import Server, postgres
from benchmarks.snapshot.report import table
from benchmarks.snapshot.rounds import Compared, compare_apply, compare_travel, compare_write
from benchmarks.snapshot.travel import Travel
from benchmarks.snapshot.writing import Writing
from lr_client.spark import local_session

_WARM_ROWS = 20_000
#: So few rows that the start of a Spark job takes most of the time.
_FEW_ROWS = 2_000
#: Up to so many rows, a provider without Spark is measured too.
_FEW = 100_000


def main() -> None:
    """Measure snapshots and print a table."""
    chosen = _arguments()
    with postgres(chosen.folder) as server, tempfile.TemporaryDirectory(prefix="lrq-", dir=chosen.folder) as folder:
        found = _measure(server, Path(folder), chosen)
    facts = {
        "cores": os.cpu_count(),
        "payload_bytes": chosen.payload,
        "rounds": chosen.rounds,
        "compared": [each.facts() for each in found],
    }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n" if chosen.json else table(found, facts))


def _measure(server: Server, folder: Path, chosen: argparse.Namespace) -> list[Compared]:
    sizes = sorted({chosen.rows, *chosen.growth})
    found = []
    with closing(_Session()) as session:
        if chosen.large:
            return [_large(Travel(server, session.spark, folder), chosen.large << 20, chosen.payload)]
        if chosen.only != "travel":
            writing = Writing(server, session.spark, folder)
            compare_write(writing, _WARM_ROWS, chosen.payload, 1)
            for rows in sizes:
                found.append(compare_write(writing, rows, chosen.payload, _rounds(rows, chosen)))
                _tell(found[-1])
        if chosen.only != "write":
            travel = Travel(server, session.spark, folder)
            with travel.running():
                compare_travel(travel, _WARM_ROWS, chosen.payload, 1, plain=True)
                for rows in (_FEW_ROWS, *sizes):
                    pair = compare_travel(travel, rows, chosen.payload, _rounds(rows, chosen), plain=rows <= _FEW)
                    if rows == _FEW:
                        pair.append(compare_apply(travel, rows, chosen.payload, _rounds(rows, chosen)))
                    found += pair
                    for each in pair:
                        _tell(each)
    return found


def _large(travel: Travel, total: int, size: int) -> Compared:
    with travel.running():
        compare_travel(travel, _WARM_ROWS, size, 1)
        return compare_travel(travel, total // size, size, 1)[0]


class _Session:
    """A Spark session with `close`."""

    def __init__(self) -> None:
        self.spark = local_session(2)

    def close(self) -> None:
        self.spark.stop()


def _rounds(rows: int, chosen: argparse.Namespace) -> int:
    return chosen.rounds if rows in (chosen.rows, _FEW) else 1


def _tell(found: Compared) -> None:
    sys.stderr.write(f"{found.what}, {found.rows} rows: {found.ratio:.2f} of {found.against}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-snapshot", description=main.__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the rounds for the bars")
    parser.add_argument("--payload", type=int, default=1024, help="bytes per row")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds; the report shows the median")
    parser.add_argument(
        "--growth",
        type=int,
        nargs="*",
        default=[100_000, 200_000],
        help="further numbers of rows, with one round each (100,000: all)",
    )
    parser.add_argument("--only", choices=["write", "travel"], help="measure only one of the two")
    parser.add_argument("--large", type=int, metavar="MIB", help="send only one snapshot of MIB, to measure memory")
    parser.add_argument("--folder", help="folder of the databases; by default the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
