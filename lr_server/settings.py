"""The settings of a site's server: from Python, from `LRQ_*` variables, or from `lrq.toml`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import make_url

from discovery.ring_table import with_ring_place
from discovery.site_file import DEFAULT_FILE, read_site_file
from discovery.topology import Peer, peers_of
from lr_server.feed.throttle import FlowControl
from lr_server.protocol.negotiation import InitialSync
from lr_server.ring_setting import RingSetting
from lr_server.setting_checks import check_together
from lr_server.setting_errors import sentence
from lr_server.setting_types import (
    Client,
    Connections,
    DatabaseUrl,
    ListenEndpoint,
    ListFromText,
    MetricsAddress,
    NetworkRange,
    NotNegative,
    PeerEndpoint,
    Positive,
    ProducerRule,
    Ranges,
    Seconds,
    SecondsOrNone,
    ServerEndpoint,
    Site,
    TableFromText,
    TickRows,
    TopologyName,
    misspelt,
    with_schema_in_url,
)
from lr_server.topology.loading import FILE
from lr_server.topology.rules import OwnSite
from queues import look_alikes
from queues.errors import ConfigurationError
from queues.names import ClientName, SiteId
from queues.send_log.port import Retention
from sink.transport.credentials import Credentials
from sink.transport.service import FIRST_FRAME_SECONDS, MAX_STREAMS

MIB: Final = 1024**2
GIB: Final = 1024**3


class Settings(BaseSettings):
    """The settings of one site's server; frozen, checked when made.

    Values from Python come first, then `LRQ_<FIELD>` variables, then (with `load`) the file. Raises
    `ConfigurationError` with one sentence that names the field and says how to correct it.

    Attributes:
        site_id: The id of this site.
        database_url: The site's database, SQLite or PostgreSQL; the password is never shown. The argument `schema`
            (`LRQ_SCHEMA`) names the schema of lrq's tables on PostgreSQL; `database_url` then has it in its query.
        listen: Endpoints at which other sites reach this site; empty for a site that only sends.
        peers: The endpoint of every other site: tcp://host:port, tls://host:port, ipc:///path, local:<site> within
            one process, or attached:<site> for a site that attaches itself (see `attach` there). Several endpoints
            stand between commas, one for each server of the site. Each session prefers one of them, and goes on to the
            next after a failure.
        snapshot_endpoints: Other endpoints for the snapshots of some peers, for example other ports or servers.
        attach: Sources that cannot reach this site, and endpoints of all their servers, as in `peers`. The servers of
            this site connect to them, and their entries come over these connections. Such a source has the peer
            attached:<site>: see docs/attached-sites.md.
        replicas: Names for groups of peers, such as tokyo = ["tokyo-a", "tokyo-b"]: an entry for the name, or for one
            member, goes to all members. One member serves; `lrq replica promote` chooses another.
        topology: The place that the peers come from. "file": `peers`, which `lrq serve` reads again from its file after
            SIGHUP. "table": the table that `lrq peer` changes. "module:name", or the name of an entry point in the
            group "lrq.topology": a `TopologyProvider`. Only this place counts.
        topology_poll_seconds: The time between two looks at the table or at a provider.
        preferred_network: Networks such as "10.1.0.0/16" or "fd00::/8", the best one first. Other servers of this site
            are told the addresses of this server in these networks only; by default all of them.
        tls_certificate: PEM file with the certificate of this site for its tls:// endpoints and its peers.
            The three TLS files are read again for each connection, so they can be renewed at any time.
        tls_key: PEM file with the key of that certificate, without a password.
        tls_authority: PEM file with the authority of all sites' certificates; each such certificate is trusted.
        tls_verify_site: Whether a source's certificate must name the source's site, as common name or in
            subjectAltName. Without it any trusted certificate may write as any site.
        ranges: The number of ranges that share the sessions of this site among its servers. All servers need the same
            number, and each session stands in one range.
        ingest: Whether producers without a database may send messages to this site at its `listen` endpoints.
        producers: The clients and destinations that each producer may use, by the name of the producer. A name with
            `*` at its end stands for all producers whose names begin like that. Other producers are refused.
        require_followers: Ingest is refused while the database has fewer synchronous standby servers; PostgreSQL only.
        ring: The ring of three servers that keep this site's log without a database server: see docs/running-a-ring.md.
        metrics: The host:port of /metrics for Prometheus, and of /healthz and /readyz for probes; by default none.
        clients: The clients to replicate; empty for every client that transmits or has a snapshot provider here.
        initial_sync: Whether a new session begins with a "snapshot" or with the oldest entry of the "log". With "auto"
            the log begins while it holds every entry for the site and no provider of the client is there, otherwise a
            snapshot. After a restart a change also holds for a session without its first snapshot.
        flow_control: The rule of the live feed for slow sessions. `cascade` waits for them. `drop` lets them read the
            database. `smart` does so unless more than half are slow. No rule loses entries.
        max_payload_bytes: The largest payload of one entry; the sender in the application has its own limit.
        max_batch_bytes: Rows are gathered into one frame up to this size.
        max_message_bytes: The largest accepted frame; a tick, or a batch and one payload, must fit. So must a block
            of a snapshot, for which 2.5 MiB suffice.
        max_streams: The most sessions of other sites that this server serves at one moment.
        max_streams_per_caller: The most of them for one caller, by default half of max_streams. A caller is a
            certificate, or an address without TLS; callers at a Unix socket have no limit of their own.
        max_connections: The most connections of this server to its database, at least 9. Sessions wait for each other
            where they need more.
        first_frame_seconds: A stream is ended if its first valid frame does not come within this time.
        window_bytes: The most bytes in flight to the sink of one session.
        window_frames: The most frames in flight to the sink of one session.
        receive_bytes: The most bytes of log entries that each receive queue here holds for its subscriber; further ones
            wait at their source. A larger transaction passes when the queue is empty. Snapshots do not count; 0 for no
            limit.
        tick_rows: A tick closes at this many rows, at most 262,144, but never within a transaction.
        tick_bytes: A tick closes at this many bytes of payloads and headers, but never within a transaction.
        tick_interval_seconds: The longest pause between two ticks under load; an idle log is closed at once.
        idle_poll_seconds: The longest time between two looks at a quiet log where no commit notifies the server.
            SQLite has no notifications. PostgreSQL has none while a transaction that has transmitted is open, or where
            max_prepared_transactions is above 0.
        snapshot_poll_seconds: The time between two looks at snapshot requests and their progress.
        snapshot_floor_bytes: Snapshots give way while they delay live entries. All snapshots of this server together
            may still send so many bytes a second; with 0 they never give way.
        feed_bytes: The size of the newest log that the live feed keeps in memory.
        retention_seconds: Unacknowledged entries are kept for at least this long, and at most a quarter longer.
        retention_bytes: Unacknowledged entries are kept up to this many bytes of payloads and headers.
        unknown_retention_seconds: Entries that only sites outside `peers` lack are kept for this long. The time of a
            removed site begins with its removal.
        acknowledged_retention_seconds: Entries that every site has are kept for at least this long, so that a site can
            order a replay. They are kept up to twice as long, because segments are trimmed as a whole. The limits
            `retention_seconds` and `retention_bytes` hold for these entries too.
        known_destinations_only: Whether applications of this site may send to its peers only.
        segment_seconds: A segment of the log is closed after this time, and trimmed as a whole later. Where retention
            needs that, segments are shorter or longer.
        segment_bytes: A segment of the log is closed at this many bytes of payloads and headers.
        trim_seconds: The time between two runs of trim; less where retention is short.
        parked_retention_seconds: Parked entries are kept for this long.
        lease_seconds: Another server of this site takes over if the owner renews no lease for this long.
        heartbeat_seconds: A quiet session sends the newest tick, and lag is reported, at this interval.
        stall_seconds: A session with frames in flight and no answer for this long is stalled and reconnects. Its oldest
            frame has the time besides that it needs at 64 kbit/s.
        retry_first_seconds: The delay before the first retry; the delay doubles with each further retry.
        retry_cap_seconds: The longest delay between two retries.
        slow_retry_seconds: The delay between two retries where only a person can help.
        retry_forever: Whether a session without a connection tries again for ever. Otherwise the session has failed
            after `retry_limit` tries without progress, until the server starts again.
        retry_limit: The tries without progress of a session that does not try for ever.
    """

    model_config = SettingsConfigDict(env_prefix="LRQ_", frozen=True, extra="forbid", env_ignore_empty=True)

    site_id: Site
    database_url: DatabaseUrl = Field(repr=False)
    listen: Annotated[Sequence[ListenEndpoint], NoDecode, ListFromText] = ()
    peers: Annotated[Mapping[Site, PeerEndpoint], NoDecode, TableFromText] = {}
    snapshot_endpoints: Annotated[Mapping[Site, PeerEndpoint], NoDecode, TableFromText] = {}
    attach: Annotated[Mapping[Site, ServerEndpoint], NoDecode, TableFromText] = {}
    replicas: Annotated[Mapping[Site, Sequence[Site]], NoDecode, TableFromText] = {}
    topology: TopologyName = FILE
    topology_poll_seconds: Seconds = 1.0
    preferred_network: Annotated[Sequence[NetworkRange], NoDecode, ListFromText] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_authority: Path | None = None
    tls_verify_site: bool = False
    ranges: Ranges = 64
    ingest: bool = False
    producers: Annotated[Mapping[str, ProducerRule], NoDecode, TableFromText] = {}
    require_followers: NotNegative = 0
    ring: Annotated[RingSetting | None, NoDecode, TableFromText] = None
    metrics: MetricsAddress | None = None
    clients: Annotated[Sequence[Client], NoDecode, ListFromText] = ()
    initial_sync: InitialSync = "auto"
    flow_control: FlowControl = "smart"

    max_payload_bytes: Positive = 16 * MIB
    max_batch_bytes: Positive = 2 * MIB
    max_message_bytes: Positive = 24 * MIB
    max_streams: Positive = MAX_STREAMS
    max_streams_per_caller: Positive | None = None
    max_connections: Connections = 20
    first_frame_seconds: Seconds = FIRST_FRAME_SECONDS
    window_bytes: Positive = 8 * MIB
    window_frames: Positive = 64
    receive_bytes: NotNegative = GIB

    tick_rows: TickRows = 5_000
    tick_bytes: Positive = 2 * MIB
    tick_interval_seconds: Seconds = 0.2
    idle_poll_seconds: Seconds = 0.1
    snapshot_poll_seconds: Seconds = 0.2
    snapshot_floor_bytes: NotNegative = 4 * MIB
    feed_bytes: Positive = 16 * MIB

    retention_seconds: Seconds = 7 * 86_400.0
    retention_bytes: Positive = 10 * GIB
    unknown_retention_seconds: Seconds = 3_600.0
    acknowledged_retention_seconds: SecondsOrNone = 0.0
    known_destinations_only: bool = False
    segment_seconds: Seconds = 60.0
    segment_bytes: Positive = 64 * MIB
    trim_seconds: Seconds = 5.0
    parked_retention_seconds: Seconds = 90 * 86_400.0

    lease_seconds: Seconds = 10.0
    heartbeat_seconds: Seconds = 2.0
    stall_seconds: Seconds = 60.0
    retry_first_seconds: Seconds = 0.1
    retry_cap_seconds: Seconds = 5.0
    slow_retry_seconds: Seconds = 15.0
    retry_forever: bool = True
    retry_limit: Positive = 10

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **given: object) -> Self:
        """Read the *given* values, then `LRQ_*` variables, then a TOML file; the first value of a field wins.

        Without *path*, read `lrq.toml` of the working directory if there is one.
        """
        file = Path(path) if path is not None else Path(DEFAULT_FILE)
        written = {} if path is None and not file.exists() else read_site_file(file)
        # An empty variable counts as unset, as for every other setting.
        schema = {"schema": os.environ["LRQ_SCHEMA"]} if os.environ.get("LRQ_SCHEMA") else {}
        return cls(**{**written, **EnvSettingsSource(cls)(), **schema, **given})

    @property
    def site(self) -> SiteId:
        """`site_id` as its own type."""
        return SiteId(self.site_id)

    @property
    def credentials(self) -> Credentials | None:
        """The credentials in the files of the `tls_` settings; None without these settings."""
        if self.tls_certificate and self.tls_key and self.tls_authority:
            files = self.tls_certificate, self.tls_key, self.tls_authority
            return Credentials(*files, verify_site=self.tls_verify_site)
        return None

    @property
    def own(self) -> OwnSite:
        """The facts about this site that peers must not contradict."""
        return OwnSite(self.site_id, tuple(self.listen), has_tls=self.credentials is not None)

    @property
    def peer_table(self) -> Mapping[str, Peer]:
        """`peers` and `snapshot_endpoints` together, not compared yet."""
        return peers_of(self.peers, self.snapshot_endpoints)

    @property
    def look_alikes(self) -> list[tuple[str, str]]:
        """The pairs of site ids, of this site and its peers, that look alike; the log warns about each."""
        return look_alikes.look_alikes([self.site_id, *self.peers])

    @property
    def client_names(self) -> tuple[ClientName, ...]:
        """`clients` as their own type; empty for every client of the database."""
        return tuple(ClientName(client) for client in self.clients)

    def retention(self, peers: frozenset[SiteId] | None) -> Retention:
        """Return the retention of the log; sites outside *peers* are unknown destinations, with None none is."""
        return Retention(
            self.retention_seconds,
            self.retention_bytes,
            self.unknown_retention_seconds,
            peers,
            self.acknowledged_retention_seconds,
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments, then variables, and no other source."""
        return init_settings, env_settings

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, values: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        wrong = misspelt(os.environ, [*cls.model_fields, "schema"])
        if wrong:
            raise ConfigurationError(wrong)
        # Raised outside `except`, because pydantic's own error repeats values, among them the password.
        try:
            made = handler(with_schema_in_url(_with_ring_place(values), os.environ))
        except ValidationError as error:
            problem = sentence(error, [*cls.model_fields, "schema"])
        else:
            check_together(made)
            return made
        raise ConfigurationError(problem)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show all settings without the database's password, which may also stand in the URL's query."""
        yield from super().__repr_args__()
        yield "database_url", make_url(self.database_url).set(query={}).render_as_string(hide_password=True)


def _with_ring_place(values: object) -> object:
    return with_ring_place(values) if isinstance(values, Mapping) else values
