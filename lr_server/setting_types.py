"""Read and check the values of settings. Pure."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final, LiteralString

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from lr_server.connections import FEWEST
from lr_server.topology.addresses import parse_network
from lr_server.topology.loading import check_name
from lr_server.topology.rules import check_endpoints, check_servers
from queues import names
from queues.block_limits import MAX_ROWS
from queues.database import urls
from queues.errors import ConfigurationError, InvalidNameError
from sink.transport.endpoints import TcpEndpoint, network_endpoint, tcp_endpoint

#: The least similarity of a misspelt variable and the right one, from 0 to 1.
_NEAR: Final = 0.85


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator that keeps the text if *parse* accepts it."""

    def check(text: str) -> str:
        try:
            parse(text)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error  # only to a ValueError pydantic adds the field's name
        return text

    return AfterValidator(check)


def metrics_endpoint(text: str) -> TcpEndpoint:
    """Read `host:port`; raise `ConfigurationError` if *text* is not of this form."""
    try:
        return tcp_endpoint(f"tcp://{text}")
    except ConfigurationError as error:
        raise ConfigurationError(f"{text!r} is no address: write host:port, such as 127.0.0.1:9464") from error


def _list(value: object) -> object:
    """Read a list from a variable's text: JSON, or items between commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return _json(value, '["tcp://0.0.0.0:7400"]')
    return [item.strip() for item in value.split(",")]


def _table(value: object) -> object:
    """Read a table from a variable's text: a JSON object."""
    return _json(value, '{"tokyo": "tcp://10.0.0.2:7400"}') if isinstance(value, str) else value


def _json(text: str, example: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"write JSON such as {example}") from None


def _no_switch(kind: LiteralString) -> BeforeValidator:
    """Return a validator that refuses True and False, which are 1 and 0 to Pydantic, with its error *kind*."""

    def check(value: object) -> object:
        if isinstance(value, bool):
            raise PydanticCustomError(kind, "not a number")
        return value

    return BeforeValidator(check)


WholeNumber = Annotated[int, _no_switch("int_type")]
_Number = Annotated[float, _no_switch("float_type")]
Site = Annotated[str, AfterValidator(names.site_id)]
Client = Annotated[str, AfterValidator(names.client_name)]
Connections = Annotated[WholeNumber, Field(ge=FEWEST)]
DatabaseUrl = Annotated[str, _checked(urls.parse)]
PeerEndpoint = Annotated[str, _checked(check_endpoints)]
ServerEndpoint = Annotated[str, _checked(check_servers)]
TopologyName = Annotated[str, _checked(check_name)]
NetworkRange = Annotated[str, _checked(parse_network)]
ListenEndpoint = Annotated[str, _checked(network_endpoint)]
MetricsAddress = Annotated[str, _checked(metrics_endpoint)]
Positive = Annotated[WholeNumber, Field(gt=0)]
NotNegative = Annotated[WholeNumber, Field(ge=0)]
Ranges = Annotated[WholeNumber, Field(gt=0, le=4096)]
TickRows = Annotated[WholeNumber, Field(gt=0, le=MAX_ROWS)]
Seconds = Annotated[_Number, Field(gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[_Number, Field(ge=0, allow_inf_nan=False)]


class ProducerRule(BaseModel):
    """The clients and the destinations that a producer may use; empty for all of the site."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clients: Sequence[Client] = ()
    destinations: Sequence[Site] = ()


def producers_problem(producers: Mapping[str, ProducerRule], *, ingest: bool, listens: bool) -> str:
    """Return a sentence about the first mistake in the settings of ingest; empty if there is none."""
    for name in producers:
        # A name ends in `*` if the name stands for all that begin like that.
        try:
            names.producer_name(name.removesuffix("*") or "any")
        except InvalidNameError as error:
            return f"producers: {error}"
    if ingest and not producers:
        return (
            "ingest is on, but no producer is allowed: write a table such as "
            '[producers."meter-*"] with clients = ["meters"] and destinations = ["tokyo"]'
        )
    if ingest and not listens:
        return "ingest is on, but nothing is in `listen`: add an endpoint for the producers, such as tls://0.0.0.0:7400"
    return ""


#: For fields whose variable holds a list or a table as text.
ListFromText = BeforeValidator(_list)
TableFromText = BeforeValidator(_table)


def misspelt(variables: Iterable[str], fields: Iterable[str]) -> str:
    """Return a sentence about the first misspelt `LRQ_*` variable; empty if there is none.

    Less similar names are allowed: Kubernetes sets variables with this prefix for a service named `lrq`.
    """
    ours = [field.upper() for field in fields]
    for variable in sorted(variables):
        prefix, _, name = variable.partition("_")
        if prefix == "LRQ" and name not in ours and (near := difflib.get_close_matches(name, ours, 1, cutoff=_NEAR)):
            return f"there is no variable {variable}: did you mean LRQ_{near[0]}?"
    return ""


def with_schema_in_url(values: object, variables: Mapping[str, str]) -> object:
    """Move the setting `schema`, or else the variable LRQ_SCHEMA, into the query of `database_url`.

    Raises `ConfigurationError` for a malformed schema, and if the URL names another one.
    """
    if not isinstance(values, Mapping):
        return values
    moved = dict(values)
    schema = moved.pop("schema", None) or variables.get("LRQ_SCHEMA") or None
    url = moved.get("database_url")
    if schema is not None and isinstance(url, str):
        made = urls.with_schema(urls.parse(url), schema)
        moved["database_url"] = made.render_as_string(hide_password=False)
    return moved
