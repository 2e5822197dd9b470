"""Send the messages of files or of the standard input, and print their places."""

import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import IO, Final

import typer

from lr_client.arguments import MAX_PAYLOAD_BYTES
from lr_client.producer import Produced, Producer, ProducerMessage
from lrq.cli.output import emit
from queues.errors import LrqError, UsageError
from queues.positions import ORIGIN

#: Most requests without an answer.
_AHEAD: Final = 512


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
    pending: deque[Future[Produced]] = deque()
    problem = None
    while (begun := _begin_next(producer, requests, options.timeout)) is not None:
        if isinstance(begun, Exception):
            problem = begun
            break
        pending.append(begun)
        while pending and (pending[0].done() or len(pending) > _AHEAD):
            yield _finished(producer, pending.popleft(), options.timeout)
    while pending:
        yield _finished(producer, pending.popleft(), options.timeout)
    if problem is not None:
        raise problem


def _begin_next(
    producer: Producer, requests: Iterator[list[ProducerMessage]], timeout: float
) -> "Future[Produced] | Exception | None":
    """Submit the next request; return None after the last one, or the error of reading or sending."""
    try:
        request = next(requests, None)
        return None if request is None else producer.submit(request, timeout)
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


def _skip_stored(requests: Iterator[object], first: int | None, last: int) -> None:
    """Leave out the requests whose numbers are stored; raise `UsageError` if a number before *first* is missing."""
    if first is None:
        return
    if first > last + 1:
        raise UsageError(
            f"the last stored number of the producer is {last}: begin with --from-sequence {last + 1} or lower"
        )
    skipped = sum(1 for _ in islice(requests, last - first + 1))
    if skipped:
        typer.echo(f"lrq: warning: requests up to number {first + skipped - 1} were stored before", err=True)


def _finished(producer: Producer, future: "Future[Produced]", timeout: float) -> Produced:
    wait([future], min(timeout, threading.TIMEOUT_MAX))
    if not future.done():
        # The end of the producer tells whether the request may be stored.
        producer.close(0.0)
    return future.result()


def _requests(options: ProduceOptions) -> Iterator[list[ProducerMessage]]:
    payloads = _payloads(options)
    while group := list(islice(payloads, options.group)):
        yield [
            ProducerMessage(payload, options.to, options.item_key, options.partition_key, options.headers)
            for payload in group
        ]


def _payloads(options: ProduceOptions) -> Iterator[bytes]:
    for file in options.files:
        name = "the standard input" if str(file) == "-" else str(file)
        with ExitStack() as opened:
            source: IO[bytes] = sys.stdin.buffer if str(file) == "-" else opened.enter_context(file.open("rb"))
            if options.whole:
                yield _checked(source.read(MAX_PAYLOAD_BYTES + 1), name)
            else:
                yield from _lines(source, name)


def _lines(source: IO[bytes], name: str) -> Iterator[bytes]:
    for number in count(1):
        line = source.readline(MAX_PAYLOAD_BYTES + 2)
        if not line:
            return
        yield _checked(line.removesuffix(b"\n").removesuffix(b"\r"), f"line {number} of {name}")


def _checked(payload: bytes, place: str) -> bytes:
    # The rest of a longer payload is not read, so its size is unknown.
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise UsageError(f"{place} has more bytes than a payload may have ({MAX_PAYLOAD_BYTES}): split it")
    return payload
