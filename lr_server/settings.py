"""What a site's server is told: in Python, in `lrq.toml`, or by `LRQ_*` variables."""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import make_url

from discovery.topology import split_endpoints
from lr_server.negotiation import InitialSync
from lr_server.setting_types import (
    Client,
    DatabaseUrl,
    ListenEndpoint,
    ListFromText,
    MetricsAddress,
    PeerEndpoint,
    Positive,
    Seconds,
    Site,
    TableFromText,
    misspelt,
    sentence,
)
from lr_server.throttle import FlowControl
from queues.errors import ConfigurationError
from queues.names import ClientName, SiteId
from sink.credentials import Credentials
from sink.endpoints import TlsEndpoint, parse_endpoint

#: Where `Settings.load()` looks when it is not told.
DEFAULT_FILE: Final = "lrq.toml"
#: What a frame holds beside its rows, at most.
FRAME_OVERHEAD_BYTES: Final = 64 * 1024

MIB: Final = 1024**2
GIB: Final = 1024**3


class Settings(BaseSettings):
    """The settings of one site's server; frozen, checked when made.

    What is given in Python comes first, then `LRQ_<FIELD>` variables, then (with `load`) the file. Raises
    `ConfigurationError` with one sentence that names the field and says what to write.

    Attributes:
        site_id: this site.
        database_url: its database, SQLite or PostgreSQL. Never shown with its password.
        listen: endpoints at which other sites reach this one; none for a site that only sends.
        peers: the endpoint of every other site: tcp://host:port, tls://host:port, ipc:///path, or local:<site> in
            this process; several, between commas, where servers stand by for that site: they are tried at random.
        tls_certificate: file in PEM that this site shows at tls:// endpoints, its own and its peers'. It and the two
            below are read again whenever a connection is made, so they can be renewed at any time.
        tls_key: file in PEM with the key of that certificate, without a password.
        tls_authority: file in PEM with the authority that the certificates of all sites are of; who has one is trusted.
        tls_verify_site: whether a source is believed only if its certificate names its site (common name, or one of
            subjectAltName); without, who has a certificate may write as any site.
        metrics: host:port at which the server tells Prometheus how the site stands, at /metrics; left out, nowhere.
        clients: what is replicated from here; left out, whatever transmits or offers snapshots here.
        initial_sync: whether a session that begins gets a snapshot first, or the oldest kept log entry.
        flow_control: what the shared feed does about slow destinations: wait for them (`cascade`), let them read
            alone (`drop`), or that unless more than half are slow (`smart`). Nothing is lost by any of them.
        max_payload_bytes: largest payload of one entry; the application's own limit is its sender's.
        max_batch_bytes: rows are gathered into one frame up to this size.
        max_message_bytes: largest frame that is taken; a tick, or a batch and one payload, must fit.
        window_bytes: how much may be in flight to one session's sink.
        window_frames: the same, in frames.
        tick_rows: a tick closes at this many rows, but never within a transaction.
        tick_bytes: the same, in bytes of payload.
        tick_interval_seconds: longest pause between two ticks under load; an idle log is closed at once.
        idle_poll_seconds: longest time between two looks at a quiet log where nobody tells of a commit: on SQLite, and
            on PostgreSQL while a transaction that has transmitted is open.
        snapshot_poll_seconds: time between two looks at requests for snapshots and their progress.
        feed_bytes: how much of the newest log the shared feed keeps in memory.
        retention_seconds: entries are kept this long for those who have not acknowledged them.
        retention_bytes: the same, in bytes of payload.
        segment_seconds: a segment of the log is closed, to be emptied whole later, after this time.
        segment_bytes: the same, in bytes of payload.
        trim_seconds: time between two runs of trim.
        parked_retention_seconds: entries that a subscriber has set aside are kept this long.
        lease_seconds: another server of this site takes over after this time without a sign of life.
        heartbeat_seconds: a quiet session is told of the newest tick this often, and lag is reported.
        stall_seconds: a session that owes something and gets no answer for this long is stalled: it reconnects.
        retry_first_seconds: delay before the first retry; it doubles with each further one.
        retry_cap_seconds: longest delay between two retries.
        slow_retry_seconds: delay between two retries where only a person can help.
    """

    model_config = SettingsConfigDict(env_prefix="LRQ_", frozen=True, extra="forbid", env_ignore_empty=True)

    site_id: Site
    database_url: DatabaseUrl = Field(repr=False)
    listen: Annotated[Sequence[ListenEndpoint], NoDecode, ListFromText] = ()
    peers: Annotated[Mapping[Site, PeerEndpoint], NoDecode, TableFromText] = {}
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_authority: Path | None = None
    tls_verify_site: bool = False
    metrics: MetricsAddress | None = None
    clients: Annotated[Sequence[Client], NoDecode, ListFromText] = ()
    initial_sync: InitialSync = "snapshot"
    flow_control: FlowControl = "smart"

    max_payload_bytes: Positive = 16 * MIB
    max_batch_bytes: Positive = 2 * MIB
    max_message_bytes: Positive = 24 * MIB
    window_bytes: Positive = 8 * MIB
    window_frames: Positive = 64

    tick_rows: Positive = 5_000
    tick_bytes: Positive = 2 * MIB
    tick_interval_seconds: Seconds = 0.2
    idle_poll_seconds: Seconds = 0.1
    snapshot_poll_seconds: Seconds = 0.2
    feed_bytes: Positive = 16 * MIB

    retention_seconds: Seconds = 7 * 86_400.0
    retention_bytes: Positive = 10 * GIB
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

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **given: object) -> Self:
        """Read a TOML file and `LRQ_*` variables, which come first; what is *given* by name comes before both.

        Without *path*, `lrq.toml` of the working directory if there is one.
        """
        file = Path(path) if path is not None else Path(DEFAULT_FILE)
        written = {} if path is None and not file.exists() else _read(file)
        return cls(**{**written, **EnvSettingsSource(cls)(), **given})

    @property
    def site(self) -> SiteId:
        """`site_id` as what it is."""
        return SiteId(self.site_id)

    @property
    def credentials(self) -> Credentials | None:
        """What the `tls_` settings name together; None when there are none."""
        if self.tls_certificate and self.tls_key and self.tls_authority:
            files = self.tls_certificate, self.tls_key, self.tls_authority
            return Credentials(*files, verify_site=self.tls_verify_site)
        return None

    @property
    def client_names(self) -> tuple[ClientName, ...]:
        """`clients` as what they are; empty when they are to be found."""
        return tuple(ClientName(client) for client in self.clients)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments before variables, and nothing else."""
        return init_settings, env_settings

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, values: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        wrong = misspelt(os.environ, cls.model_fields)
        if wrong:
            raise ConfigurationError(wrong)
        # Not `from`: pydantic's own error repeats values, among them the password.
        try:
            made = handler(values)
        except ValidationError as error:
            problem = sentence(error, cls.model_fields)
        else:
            _check_together(made)
            return made
        raise ConfigurationError(problem)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show everything but the database's password, which may also stand in the URL's query."""
        yield from super().__repr_args__()
        yield "database_url", make_url(self.database_url).set(query={}).render_as_string(hide_password=True)


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also a UnicodeDecodeError
        raise ConfigurationError(f"{file} is no TOML: {error}") from None


_TLS: Final = ("tls_certificate", "tls_key", "tls_authority")


def _speaks_tls(settings: Settings) -> bool:
    return _are_tls(settings.listen) or _are_tls(
        each for peer in settings.peers.values() for each in split_endpoints(peer)
    )


def _are_tls(endpoints: Iterable[str]) -> bool:
    return any(isinstance(parse_endpoint(endpoint), TlsEndpoint) for endpoint in endpoints)


def _check_together(settings: Settings) -> None:
    """Raise `ConfigurationError` where one setting contradicts another."""
    missing = [name for name in _TLS if getattr(settings, name) is None]
    if missing and (len(missing) < len(_TLS) or _speaks_tls(settings)):
        raise ConfigurationError(f"{missing[0]} is missing: tls:// needs {', '.join(_TLS)}")
    if settings.tls_verify_site and not _are_tls(settings.listen):
        raise ConfigurationError(
            "tls_verify_site is on, but nothing in `listen` begins with tls://: nobody is verified"
        )
    if settings.site_id in settings.peers:
        raise ConfigurationError(f"peers names {settings.site_id!r}, which is this site itself: remove it")
    needed = max(settings.max_payload_bytes + settings.max_batch_bytes, settings.tick_bytes) + FRAME_OVERHEAD_BYTES
    if settings.max_message_bytes < needed:
        raise ConfigurationError(
            f"max_message_bytes is {settings.max_message_bytes}, but a tick, or a batch and the largest payload, need "
            f"{needed}: raise it, or lower tick_bytes and max_payload_bytes"
        )
    if settings.retry_cap_seconds < settings.retry_first_seconds:
        raise ConfigurationError("retry_cap_seconds is below retry_first_seconds: raise it")
    if settings.stall_seconds <= settings.heartbeat_seconds:
        raise ConfigurationError("stall_seconds must be above heartbeat_seconds, or a quiet session looks stalled")
