"""Run a server until standard input ends: serve.py SETTINGS, as JSON."""

import json
import sys

from lr_server import LogReplicationServer, Settings

with LogReplicationServer(Settings(**json.loads(sys.argv[1]))):
    sys.stdin.read()
