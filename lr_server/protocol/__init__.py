"""The state machine of a session and its decisions. Pure: no database, network, thread or clock."""
