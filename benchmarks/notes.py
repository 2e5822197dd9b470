"""The notes of the report that explain its numbers."""

from typing import Final

NOTES: Final = (
    "All on one machine, source and destinations in databases of one server; a bar is a ratio within one run.",
    "*Delivered* is committed in the destination's table; after the clock has stopped, each row is counted once.",
    "Payloads are 1 KiB of text that compresses to three quarters, because PgQ carries text only.",
    "One client writes ten entries a transaction, as fast as it can, on a connection of SQLAlchemy and with one"
    " statement or call each transaction (pgqueuer, procrastinate: their own way to enqueue many). *application* and"
    " *growth* do it in sessions. The order of contenders rotates.",
    "PostgreSQL has 2 GiB of WAL files before the first run, as one that has run for a while: to make one of 16 MiB"
    " holds every commit up for 15 ms.",
    "**lrq**: default settings, as `lrq serve` runs it, one server process for the source and one for each destination,"
    " because a site is one database with one server. One process for all sinks would spare memory and share one"
    " interpreter.",
    "**logical replication**: a row-filtered publication of two columns and a subscription for each destination, in the"
    " binary format, `synchronous_commit = off` at the subscriber (its default). **Synced** has it `on`: a row is on"
    " the disk once its commit returns, as an entry is before lrq acknowledges it.",
    "**PgQ, best loop**: a tick every 20 ms; each destination filters its batch at the server, moves it with binary"
    " COPY and commits once a batch, asynchronously, together with the batch's number.",
    "**PgQ, Python consumer**: the same queue, applied by `pgq.Consumer`, one INSERT an event, one commit a batch.",
    "**pgqueuer, procrastinate, home-made outbox**: one row per destination, one worker process for each; they commit"
    " asynchronously at the destination and keep no order. The slow ones write a part of the entries of the others.",
    "**NATS JetStream, RabbitMQ**: an outbox, a relay that publishes each entry once under a topic that names its"
    " destinations, a durable consumer for each of them that commits up to 1,000 entries at a time, asynchronously, and"
    " then acknowledges them; clients in Python as all others. RabbitMQ has a batch on the disk before the outbox"
    " forgets it; JetStream only writes it to a file, which it syncs every two minutes: weaker. **Synced** JetStream"
    " has `sync_interval: always` and gives the same promise.",
    "*Applied* is committed in the application's own table at all eight destinations. lrq has a subscriber process for"
    " each, beside the server; its listener writes a call's entries with binary COPY, as PgQ's best loop does. The"
    " other contenders write into that table by nature.",
    "*Stored* is the size of all tables of the sink with their indexes and TOAST after a checkpoint, less that of the"
    " empty ones, while nothing is applied; on SQLite the size of the file after its WAL is moved into it. WAL is not"
    " counted: its files are used again. Logical replication stands beside it with rows that it has applied already.",
    "*subscriber*: the bare loop empties a plain table of its own that holds the same entries.",
    "*ring*: three servers share the machine and its disk. A message is answered once two of them have it on the disk."
    " With both followers all three have it, and without a follower there is one server."
    " Three rings are nine servers, and each ring has a third of the producers.",
    "*servers*: the clock begins when every session has a stream, and all sinks hold back; then they take everything at"
    " once, keep nothing, and the clock ends when the last session has acknowledged everything.",
    "**bare COPY** is no contender but a floor: the writer itself copies each row into the destinations' tables, 400 at"
    " a time, without positions, another process or a wait for the disk: the CPU of the writer and the tables alone.",
    "**bare transfer** is the floor of programs in Python on two machines: one process reads what is new every 150 ms"
    " and packs it as lrq does, gRPC carries it, a process for each destination unpacks it and copies it without a wait"
    " for the disk. No positions, no order of commits, no second attempt: what is on its way is lost when one ends.",
    "**INSERT alone** is the other bound: the same client, and nothing that carries its entries anywhere, as if they"
    " were delivered at once and for nothing. With this one client nobody can deliver more, or with less CPU.",
    "**bare relay** is the floor of latency for a program outside the server: NOTIFY, one read, one COPY, one durable"
    " commit. **With ticks** it records durably what it has read before another process gets it, as lrq has to for the"
    " order of commits. Both are right only while one client writes, and lose their place when they end.",
    "*Floors* are the ratios of those, and of lrq if its own processes took no CPU.",
    "CPU is that of all processes: application, servers, workers and PostgreSQL with its background processes.",
    "**By stage**: medians from the commit to nine moments that an entry passes, with a subscriber at the sink. Probes"
    " in the benchmark's processes record them, so this run is a little slower than the one beside it.",
    "Latency is seen by an observer that asks the destination every half millisecond.",
    "`transmit` (application, growth) is measured while no server of lrq runs; *growth*, *sizes* and *idle* use sinks"
    " that keep nothing, and *source CPU* is that of the server process without its database's.",
    "*Dead rows* come from positions (five a second and session), from the lease (one in three seconds) and from"
    " segments (two each), none from entries or ticks. While a snapshot is held all of them stay until their tables are"
    " written anew; what counts is the most at any time.",
)
