"""Tables and values: SQLite, user tables, conversions between types, moments."""
