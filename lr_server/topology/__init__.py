"""The peers of a site as data: their rules, their places, and a running server that follows a change."""
