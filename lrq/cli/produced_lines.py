"""Send the messages of files or of the standard input, and print their places."""

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

import typer

from lr_client.arguments import MAX_PAYLOAD_BYTES
from lr_client.producer import Produced, Producer, ProducerMessage
from lrq.cli.coming_lines import NoLineYet, coming_lines
from lrq.cli.output import emit
from queues.errors import LrqError, UsageError
from queues.positions import ORIGIN

#: Most requests without an answer.
_AHEAD: Final = 512
#: While no line comes, the answers are looked for so often.
_LOOK_SECONDS: Final = 0.02


class _Begun(NamedTuple):
    """A submitted request, since a time in monotonic seconds."""

    answer: "Future[Produced]"
    since: float


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The messages to send: their files, and the fields that all of them share.

    `first` is the number of the first request; None goes on after the last one stored. `timeout` is in seconds.
    """

    files: Sequence[Path]
    to: Sequence[str]
    item_key: str | None = None
    partition_key: str | None = None
    headers: Mapping[str, str] | None = None
    whole: bool = False
    group: int = 1
    first: int | None = None
    timeout: float = 30.0


def produce_all(producer: Producer, options: ProduceOptions) -> Iterator[Produced]:
    """Send all messages; yield each stored request in order, without those that were stored before.

    Raises the error of the first request that is not stored or cannot be read. The requests before were yielded then.
    """
    requests = _requests(options)
    _skip_stored(requests, options.first, producer.last_sequence(options.timeout))
    pending: deque[_Begun] = deque()
    problem = None
    while (begun := _begin_next(producer, requests, options.timeout)) is not None:
        if isinstance(begun, Exception):
            problem = begun
            break
        if isinstance(begun, NoLineYet):
            yield from _answered_during(begun, producer, pending, options.timeout)
            continue
        pending.append(_Begun(begun, time.monotonic()))
        while pending and (pending[0].answer.done() or len(pending) > _AHEAD):
            yield _finished(producer, pending.popleft().answer, options.timeout)
    while pending:
        yield _finished(producer, pending.popleft().answer, options.timeout)
    if problem is not None:
        raise problem


def _answered_during(
    quiet: NoLineYet, producer: Producer, pending: "deque[_Begun]", timeout: float
) -> Iterator[Produced]:
    """Yield the requests that are answered while no line comes; raise the error of one without an answer in time."""
    while pending and not quiet.ends_within(_LOOK_SECONDS):
        first = pending[0]
        if first.answer.done() or time.monotonic() - first.since > timeout:
            yield _finished(producer, pending.popleft().answer, 0.0)
    if not pending:
        quiet.ends_within(None)


def _begin_next(
    producer: Producer, requests: Iterator[list[ProducerMessage] | NoLineYet], timeout: float
) -> "Future[Produced] | NoLineYet | Exception | None":
    """Submit the next request; return None after the last one, or the error of reading or sending."""
    try:
        request = next(requests, None)
        return request if request is None or isinstance(request, NoLineYet) else producer.submit(request, timeout)
    except (LrqError, OSError) as error:
        return error


def print_produced(produced: Produced, *, as_json: bool) -> None:
    """Print number and position of a stored request: on one line, or as JSON."""
    known = produced.position != ORIGIN
    if as_json:
        place = {"branch": produced.position.branch, "seq": produced.position.seq} if known else None
        emit({"sequence": produced.sequence, "position": place, "token": produced.token or None})
    else:
        place_text = f"{produced.position.branch}/{produced.position.seq}" if known else "stored"
        typer.echo(f"{produced.sequence} {place_text}")


def _skip_stored(requests: Iterator[list[ProducerMessage] | NoLineYet], first: int | None, last: int) -> None:
    """Leave out the requests whose numbers are stored; raise `UsageError` if a number before *first* is missing."""
    if first is None:
        return
    if first > last + 1:
        raise UsageError(
            f"the last stored number of the producer is {last}: begin with --from-sequence {last + 1} or lower"
        )
    skipped = sum(1 for _ in islice(_awaited(requests), last - first + 1))
    if skipped:
        typer.echo(f"lrq: warning: requests up to number {first + skipped - 1} were stored before", err=True)


def _finished(producer: Producer, future: "Future[Produced]", timeout: float) -> Produced:
    wait([future], min(timeout, threading.TIMEOUT_MAX))
    if not future.done():
        # The end of the producer tells whether the request may be stored.
        producer.close(0.0)
    return future.result()


def _awaited(requests: Iterator[list[ProducerMessage] | NoLineYet]) -> Iterator[list[ProducerMessage]]:
    for request in requests:
        if isinstance(request, NoLineYet):
            request.ends_within(None)
        else:
            yield request


def _requests(options: ProduceOptions) -> Iterator[list[ProducerMessage] | NoLineYet]:
    group: list[ProducerMessage] = []
    for payload in _payloads(options):
        if isinstance(payload, NoLineYet):
            yield payload
            continue
        message = ProducerMessage(payload, options.to, options.item_key, options.partition_key, options.headers)
        group.append(message)
        if len(group) == options.group:
            yield group
            group = []
    if group:
        yield group


def _payloads(options: ProduceOptions) -> Iterator[bytes | NoLineYet]:
    for file in options.files:
        name = "the standard input" if str(file) == "-" else str(file)
        with ExitStack() as opened:
            source: IO[bytes] = sys.stdin.buffer if str(file) == "-" else opened.enter_context(file.open("rb"))
            if options.whole:
                yield _checked(source.read(MAX_PAYLOAD_BYTES + 1), name)
            else:
                yield from _lines(source, name)


def _lines(source: IO[bytes], name: str) -> Iterator[bytes | NoLineYet]:
    number = 0
    for line in coming_lines(source, MAX_PAYLOAD_BYTES + 2):
        if isinstance(line, NoLineYet):
            yield line
            continue
        number += 1
        yield _checked(line.removesuffix(b"\n").removesuffix(b"\r"), f"line {number} of {name}")


def _checked(payload: bytes, place: str) -> bytes:
    # The rest of a longer payload is not read, so its size is unknown.
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise UsageError(f"{place} has more bytes than a payload may have ({MAX_PAYLOAD_BYTES}): split it")
    return payload
