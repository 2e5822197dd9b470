"""`manage.py lrq_work path.to:listener`."""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from lr_client import subscribe
from lrq.contrib.django.engines import engine
from lrq.contrib.django.listeners import SharingListener
from queues.errors import LrqError, NotInitializedError, SchemaMismatchError


class Command(BaseCommand):
    """Delivers received entries to a listener until SIGTERM or Ctrl-C."""

    help = (
        "Deliver the received entries of one client to a listener, each exactly once, until SIGTERM or Ctrl-C. "
        "Changes of models and the removal of the entries are one transaction."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("listener", metavar="path.to:listener", help="The listener, such as shop.listeners:apply.")
        parser.add_argument("--using", help="The alias of the database; by default that of the setting LRQ.")
        parser.add_argument(
            "--on-failure",
            choices=("block", "park"),
            default="block",
            help="Wait until the listener accepts refused entries, or set them aside (park).",
        )
        parser.add_argument("--max-tries", type=int, default=5, help="Tries before entries are parked.")
        parser.add_argument(
            "--poll-interval", type=float, default=1.0, help="Seconds between two looks for queues of new sources."
        )

    def handle(self, *_arguments: Any, **options: Any) -> None:  # noqa: ANN401 - Django's interface
        """Work until a signal comes."""
        try:
            self._work(_imported(options["listener"]), **options)
        except (NotInitializedError, SchemaMismatchError) as error:
            raise CommandError(f"{error}; in a project of Django, `manage.py migrate` does that") from error
        except LrqError as error:
            raise CommandError(str(error)) from error

    def _work(self, inner: Any, **options: Any) -> None:  # noqa: ANN401 - an object of the application
        listener = SharingListener(inner)
        made = engine(options["using"])
        limits = {name: options[name] for name in ("on_failure", "max_tries", "poll_interval")}
        try:
            with subscribe(made, listener, **limits):
                self.stdout.write(f"lrq_work: {options['listener']} applies entries of {listener.client_name}")
                self.stdout.flush()
                _wait_for_signal()
        finally:
            made.dispose()


def _imported(path: str) -> Any:  # noqa: ANN401 - checked by the caller
    try:
        return import_string(path.replace(":", "."))
    except ImportError as error:
        raise CommandError(f"{path} cannot be imported ({error}): write path.to:listener") from error


def _wait_for_signal() -> None:
    """Return after the first SIGTERM or SIGINT; a second one ends the process at once."""
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    stopping.wait()
