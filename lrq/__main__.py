"""The program `lrq`; also `python -m lrq`."""

import sys

from queues.errors import MissingDependencyError
from queues.extras import require_libraries


def main() -> None:
    """Run the command line and exit; without its libraries, say in one line how to install them."""
    try:
        require_libraries(
            "cli", "the command line", ("typer", "rich", "structlog", "grpc", "pydantic_settings", "prometheus_client")
        )
    except MissingDependencyError as missing:
        print(f"lrq: {missing}", file=sys.stderr)  # noqa: T201 - nothing better is installed
        sys.exit(1)
    from lrq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
