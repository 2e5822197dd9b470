"""Generate `queues/wire` from `proto`: `python tools/wire.py`; with `--check`, only fail if it is out of date."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: All files define messages; all but the first define services.
MESSAGES = ("entry.proto", "replication.proto", "attachment.proto", "ingest.proto", "ring.proto")
SERVICES = ("replication.proto", "attachment.proto", "ingest.proto", "ring.proto")

# The generated code refuses libraries older than its stamps, but applications may have older ones than the generator.
# The generator of grpcio-tools 1.72.2 gives the same code with these stamps. `make oldest` tests these versions.
_STAMPS = (
    (re.compile(r"^(# Protobuf Python Version: ).*$", re.MULTILINE), r"\g<1>6.30.0"),
    (re.compile(r"(Domain\.PUBLIC,\s+)\d+(,\s+)\d+(,\s+)\d+,"), r"\g<1>6\g<2>30\g<3>0,"),
    (re.compile(r"^(GRPC_GENERATED_VERSION = ).*$", re.MULTILINE), r"\g<1>'1.72.2'"),
)


def generate(folder: Path) -> None:
    """Write `queues/wire/*_pb2*` for every file of `proto` into *folder*."""
    plugins = [
        f"--plugin=protoc-gen-{name}={Path(sys.executable).with_name(f'protoc-gen-{name}')}"
        for name in ("mypy", "mypy_grpc")
    ]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-Iqueues/wire=proto", *plugins]
    messages = [f"--python_out={folder}", f"--mypy_out=quiet:{folder}"]
    services = [f"--grpc_python_out={folder}", f"--mypy_grpc_out=quiet:{folder}"]
    for outputs, protos in ((messages, MESSAGES), (services, SERVICES)):
        subprocess.run([*protoc, *outputs, *(f"queues/wire/{name}" for name in protos)], cwd=ROOT, check=True)
    for path in (folder / "queues" / "wire").glob("*_pb2*.py"):
        path.write_text(_stamped(path.read_text()))


def stale() -> list[str]:
    """Return the names of generated files that are out of date, missing or superfluous."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = _read(Path(folder) / "queues" / "wire")
    committed = _read(ROOT / "queues" / "wire")
    return sorted(name for name in fresh | committed if fresh.get(name) != committed.get(name))


def _stamped(code: str) -> str:
    for found, stamp in _STAMPS:
        code = found.sub(stamp, code)
    return code


def _read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*_pb2*.py*") if path.is_file()}


def main() -> None:
    """Generate or, with `--check`, fail with the names of stale files."""
    if sys.argv[1:] != ["--check"]:
        generate(ROOT)
    elif names := stale():
        sys.exit(f"queues/wire is out of date with proto/ ({', '.join(names)}): run `make proto`")


if __name__ == "__main__":
    main()
