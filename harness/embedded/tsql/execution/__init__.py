"""Statements, compiled: one function for each node of `syntax` that returns what a step does.

A *step* is a closure over its parsed statement. Steps that can wait are generators, the rest are plain functions; a
block is plain if all its steps are. Names of tables and columns are resolved when a step first runs, as SQL Server
does, and again when the catalog has changed.
"""
