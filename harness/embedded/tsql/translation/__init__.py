"""Queries and expressions: from sqlglot's syntax tree to SQLite's SQL, with the T-SQL type of every column.

One table (`expressions.RENDERERS`) says for each kind of node what SQL it becomes and of which type it is; one
(`functions.FUNCTIONS`) does so for each function. What is in neither is an error, so nothing reaches SQLite that
means something else there.
"""
