"""The live feed: each tick is read once and routed to all sessions."""
