"""Texts travel in the encoding of their connection, which is that of the database or a setting: LATIN1 here."""

from collections.abc import Iterator

import pytest
from sqlalchemy import BigInteger, Column, Engine, MetaData, Table, Text, create_engine, select, text

from queues.clock import now_us
from queues.database import dialects
from queues.database.postgresql.pipeline import exchange
from queues.database.postgresql.prepared_statements import Array
from queues.database.transactions import reading, writing
from queues.destinations import destination_set
from queues.errors import ConfigurationError
from queues.names import ClientName
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import ProducerKey, Production, RequestVerdict

WORDS = Table("words", MetaData(), Column("id", BigInteger), Column("word", Text))
CLIENT = ClientName("größe")
LACKING = "the database has the encoding latin-1, which lacks the character '日'"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def latin(site: Engine) -> Iterator[Engine]:
    """Give an engine over the site's database whose connections speak LATIN1."""
    engine = create_engine(site.url, connect_args={"options": "-c client_encoding=LATIN1"})
    yield engine
    engine.dispose()


def test_texts_lists_and_arrays_are_the_same_on_a_connection_with_another_encoding(latin: Engine):
    statement = "SELECT ascii(%(word)s), ascii((%(words)s::text[])[2]), ascii((%(array)s::text[])[1]), %(word)s::text"
    values = {"word": "ä", "words": ["ö", "ü"], "array": Array("text", ["é", "ß"])}
    with latin.connect() as connection, connection.begin():
        assert exchange(connection, [(statement, values)])[0].rows == [(ord("ä"), ord("ü"), ord("é"), "ä")]


@pytest.mark.parametrize("rows", [3, 100], ids=["as arrays", "by COPY"])
def test_rows_that_are_inserted_together_keep_their_texts(site: Engine, latin: Engine, rows: int):
    words = [(number, None if number == 1 else f"{number} ä") for number in range(rows)]
    with site.begin() as connection:
        WORDS.create(connection)
    with writing(latin) as connection:
        dialects.of(connection).bulk_insert(connection, WORDS, ("id", "word"), words)
    with reading(site) as connection:
        assert [tuple(row) for row in connection.execute(select(WORDS).order_by(WORDS.c.id))] == words


def test_requests_of_producers_keep_their_texts_and_one_with_a_lacking_character_is_refused(
    site: Engine, latin: Engine
):
    store = open_store(latin)
    keys = ["é", "日", "ü"]
    outcomes = store.store([_request(f"meter-{key}" if key != "日" else "meter", key) for key in keys], now_us())
    assert [each.verdict for each in outcomes] == [
        RequestVerdict.STORED, RequestVerdict.REFUSED, RequestVerdict.STORED,
    ]  # fmt: skip
    assert LACKING in outcomes[1].reason
    store.close()
    with reading(site) as connection:
        found = connection.execute(text("SELECT partition_key, headers, client FROM lrq_log_entries ORDER BY id"))
        assert [tuple(row) for row in found] == [("é", '{"k":"é"}', CLIENT), ("ü", '{"k":"ü"}', CLIENT)]


def test_a_lacking_character_is_one_sentence_in_each_transaction_of_lrq(latin: Engine):
    for transaction in (reading, writing):
        with pytest.raises(ConfigurationError, match=LACKING), transaction(latin) as connection:
            connection.execute(text("SELECT CAST(:word AS text)"), {"word": "日"})
        with pytest.raises(ConfigurationError, match=LACKING), transaction(latin) as connection:
            exchange(connection, [("SELECT %(word)s::text", {"word": "日"})])


def _request(producer: str, key: str) -> Production:
    entry = NewEntry(b"x", destination_set(CLIENT, ["tokyo"]), None, key, f'{{"k":"{key}"}}')
    return Production(ProducerKey(CLIENT, producer), 1, [entry])
