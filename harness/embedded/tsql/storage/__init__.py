"""Tables and values: SQLite, user tables, conversions between types and moments."""
