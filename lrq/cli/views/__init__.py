"""Results for people as tables, and for programs as JSON."""
