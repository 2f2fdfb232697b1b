"""The paper's statements, held against a result set of any lab."""
