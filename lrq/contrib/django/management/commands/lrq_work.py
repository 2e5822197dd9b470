"""`manage.py lrq_work module:listener`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from sqlalchemy import Engine

from lrq.contrib.django.engines import engine
from queues.errors import LrqError, NotInitializedError, SchemaMismatchError


class Command(BaseCommand):
    """Applies received entries with listeners until SIGTERM or Ctrl-C; the counterpart of `lrq work`."""

    help = (
        "Apply received entries with listeners, each entry exactly once, until SIGTERM or Ctrl-C. "
        "The changes of models and the removal of the entries are one transaction."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "listener", nargs="+", metavar="MODULE:LISTENER", help="A listener, such as shop.listeners:apply."
        )
        parser.add_argument("--using", help="The alias of the database; by default that of the setting LRQ.")
        parser.add_argument("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")

    def handle(self, *_arguments: Any, **options: Any) -> None:  # noqa: ANN401 - Django's interface
        """Work until a signal comes."""
        try:
            # Imported here, where a missing library of the extra `cli` becomes one sentence.
            from lrq.cli.place import worker_pool

            made = engine(options["using"], **worker_pool())
            try:
                self._work(made, options["listener"], options["metrics"])
            finally:
                made.dispose()
        except (NotInitializedError, SchemaMismatchError) as error:
            raise CommandError(f"{error}; in a project of Django, `manage.py migrate` does that") from error
        except LrqError as error:
            raise CommandError(str(error)) from error

    def _work(self, made: Engine, references: list[str], metrics: str | None) -> None:
        from discovery.object_reference import parse_reference
        from lrq.cli.application_objects import listeners_of
        from lrq.cli.process.stop_signals import StopSignals
        from lrq.cli.worker import Worker

        listeners = listeners_of([parse_reference(each) for each in references])
        signals = StopSignals()
        with Worker(made, listeners, metrics=metrics) as worker:
            served = f"; metrics at http://{worker.metrics_address}/metrics" if worker.metrics_address else ""
            self.stdout.write(f"lrq_work listens to {', '.join(listeners)}{served}")
            self.stdout.flush()
            worker.until_stopped(signals)
