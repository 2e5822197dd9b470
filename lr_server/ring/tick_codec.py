"""Ticks of a ring with all that they hold, as messages of the wire."""

from typing import Final

from queues.blocks import EntryRow, decode_entries, encode_entries
from queues.destinations import set_number
from queues.errors import CorruptFrameError, InvalidPositionError
from queues.names import ClientName
from queues.positions import Tick, Visibility
from queues.send_log.port import LogRow
from queues.send_log.producers import ProducerKey
from queues.send_log.ring.tick_contents import TickContent
from queues.send_log.ring.tick_productions import TickProduction
from queues.wire.replication_pb2 import TickHeader
from queues.wire.ring_pb2 import ReplicaTick, RingProduction, RingSet

#: The most unpacked bytes of the rows of one tick.
MOST_UNPACKED: Final = 64 * 1024 * 1024


# SQLite's largest number; the wire has larger ones.
_LARGEST: Final = 2**63 - 1


def check_numbers(*numbers: int) -> None:
    """Raise `CorruptFrameError` for a number that no store can hold."""
    if max(numbers) > _LARGEST:
        raise CorruptFrameError(f"a frame has the number {max(numbers)}, which no store can hold")


def encode_tick(content: TickContent) -> ReplicaTick:
    """Return the message of *content*; its rows are packed as in every other block."""
    tick, rows = content.tick, content.rows
    clients = {row.tag_set: row.client for row in rows}
    indexes = {number: index for index, number in enumerate(content.sets)}
    first = rows[0].id if rows else 0
    entries = [
        EntryRow(row.payload, row.transaction - first, row.committed_us, row.item_key, row.headers, row.partition_key)
        for row in rows
    ]
    return ReplicaTick(
        generation=content.generation,
        number=tick.number,
        header=TickHeader(
            branch=tick.branch,
            start_seq=tick.start_seq,
            end_seq=tick.end_seq,
            uid=tick.uid,
            mark=tick.mark,
            created_us=tick.created_us,
        ),
        previous_uid=content.previous_uid,
        bytes_total=tick.bytes_total,
        sets=[RingSet(client=clients[number], destinations=text) for number, text in content.sets.items()],
        row_sets=[indexes[row.tag_set] for row in rows],
        rows=encode_entries(entries) if rows else None,
        productions=map(_encode_production, content.productions),
    )


def decode_tick(message: ReplicaTick) -> TickContent:
    """Return the content of *message*; raise `CorruptFrameError` if it is damaged.

    Whether the content fits its place in the log is the store's question.
    """
    header = message.header
    check_numbers(message.generation, message.number, message.previous_uid, message.bytes_total)
    check_numbers(header.uid, header.start_seq, header.end_seq)
    tick = Tick(
        number=message.number,
        uid=header.uid,
        branch=header.branch,
        start_seq=header.start_seq,
        end_seq=header.end_seq,
        bytes_total=message.bytes_total,
        is_large=False,
        mark=header.mark,
        created_us=header.created_us,
        omits_replaced=True,
    )
    numbers = [set_number(ClientName(each.client), each.destinations) for each in message.sets]
    sets = {number: each.destinations for number, each in zip(numbers, message.sets, strict=True)}
    productions = tuple(map(_production, message.productions))
    return TickContent(message.generation, tick, message.previous_uid, sets, _rows(message, numbers), productions)


def _encode_production(each: TickProduction) -> RingProduction:
    return RingProduction(
        client=each.key.client,
        producer=each.key.producer,
        sequence=each.sequence,
        process=each.process,
        first_sequence=each.first,
        last_row=each.last_row,
    )


def _production(message: RingProduction) -> TickProduction:
    check_numbers(message.sequence, message.process, message.first_sequence)
    key = ProducerKey(ClientName(message.client), message.producer)
    return TickProduction(key, message.sequence, message.process, message.first_sequence, message.last_row)


def _rows(message: ReplicaTick, numbers: list[int]) -> tuple[LogRow, ...]:
    if not message.HasField("rows"):
        return ()
    columns = decode_entries(message.rows, MOST_UNPACKED)
    count = len(columns.payloads)
    if len(message.row_sets) != count or any(index >= len(numbers) for index in message.row_sets):
        raise CorruptFrameError(f"tick {message.number} has rows without destinations")
    try:
        first = Visibility.parse(message.header.mark).high - count + 1
    except InvalidPositionError as error:
        raise CorruptFrameError(f"tick {message.number} has no mark of a file") from error
    headers, keys = columns.headers or [None] * count, columns.partition_keys or [None] * count
    return tuple(
        LogRow(
            first + columns.transaction_indexes[place],
            first + place,
            first + place,
            message.sets[index].client,
            numbers[index],
            columns.item_keys[place],
            columns.committed_us[place],
            columns.payloads[place],
            headers[place],
            keys[place],
        )
        for place, index in enumerate(message.row_sets)
    )
