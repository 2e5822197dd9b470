"""The program `lrq`; also `python -m lrq`."""

import sys


def main() -> None:
    """Run the command line and exit; a Ctrl-C while its libraries load ends it as any later one does."""
    try:
        _main()
    except KeyboardInterrupt:
        # `Exit.INTERRUPTED`, whose module may not be loaded.
        sys.exit(130)


def _main() -> None:
    """Load and run the command line; without its libraries, say in one line how to install them."""
    from lrq.cli.process.first_signals import take_first_signals

    take_first_signals(sys.argv[1:])
    from queues.errors import MissingDependencyError
    from queues.extras import require_libraries

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
