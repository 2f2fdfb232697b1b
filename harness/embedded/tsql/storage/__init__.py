"""User tables in SQLite, and conversion between types."""
