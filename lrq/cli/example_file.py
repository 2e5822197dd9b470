"""The commented `lrq.toml` of `lrq init --example`: a site that works, and the settings that matter at first. Pure."""

from typing import Final

EXAMPLE: Final = """\
# lrq.toml: one site, which is one database and one server.
# A line that begins with "# name = " shows a default; take the "# " away to change the value.
# A variable LRQ_<NAME> comes before this file. docs/operating.md explains the settings.
# `lrq doctor` checks all this, and each peer.

# The id of this site; no two sites share one.
site_id = "paris"

# The site's database. PostgreSQL: "postgresql+psycopg://user@host/database".
# A password belongs into LRQ_DATABASE_URL or into libpq's password file.
database_url = "sqlite:///paris.db"

# The endpoints at which other sites reach this one; a site that only sends needs none.
# Without TLS, the network must keep strangers out.
listen = ["tcp://127.0.0.1:7400"]

# A new site begins with the whole log, or with a snapshot where the log is not whole or a provider runs.
# "snapshot" and "log" choose one of both for all sites.
# initial_sync = "auto"

# The clients to replicate; an empty list means every client that transmits here.
# clients = []

# The file names of TLS, for endpoints that begin with tls://; give all three.
# tls_certificate = "paris.pem"
# tls_key = "paris.key"
# tls_authority = "authority.pem"
# Whether a source's certificate must name its site.
# tls_verify_site = false

# Whether producers without a database may send messages to this site; each has a table of its own at the end.
# ingest = false
# Producers are refused while the database has fewer synchronous standby servers (PostgreSQL).
# require_followers = 0
# The sessions of this site stand in so many ranges, which its servers share.
# ranges = 64

# The peers come from [peers] below, from the table of `lrq peer` ("table"), or from a provider ("module:name").
# topology = "file"
# The seconds between two looks at the table, or at a provider.
# topology_poll_seconds = 1.0
# Other servers of this site are told addresses in these networks only, for example "10.1.0.0/16".
# preferred_network = []

# The address for Prometheus; without it there are no metrics.
# metrics = "127.0.0.1:9464"

# Entries wait so long, in seconds, for a site that is away (a week), and up to so many bytes (10 GiB).
# retention_seconds = 604800.0
# retention_bytes = 10737418240
# Entries for a site that is no peer wait for an hour.
# unknown_retention_seconds = 3600.0
# Entries that every site has are kept so long for replays.
# acknowledged_retention_seconds = 0.0
# Whether applications may send to the peers below only.
# known_destinations_only = false

# A receive queue takes so many bytes that its subscriber has not applied (1 GiB).
# receive_bytes = 1073741824
# The largest payload of one entry, in bytes (16 MiB).
# max_payload_bytes = 16777216

# Another server of this site takes over after so many seconds without a sign of the first one.
# lease_seconds = 10.0

# The other sites with their endpoints; several servers of one site stand between commas.
# After a change, SIGHUP makes a running server read them again. docs/peers.md has other places for them.
# A table [replicas] gives several of these sites one name: see docs/replicas.md.
[peers]
# tokyo = "tcp://127.0.0.1:7401"

# Other endpoints of some of these sites, for snapshots only.
[snapshot_endpoints]
# tokyo = "tcp://127.0.0.1:7402"

# The producers, with the clients and destinations that each may use; empty lists mean all.
[producers]
# "meter-*" = { clients = ["meters"], destinations = ["tokyo"] }
"""
