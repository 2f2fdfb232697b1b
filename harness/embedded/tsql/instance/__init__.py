"""The T-SQL side of an engine, which all its sessions share."""
