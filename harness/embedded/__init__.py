"""The embedded Service Broker: the part of SQL Server that Service Broker applications use, in one process.

A client logs in over TDS (`tds`, `server`), its T-SQL (`tsql`) drives conversations, queues, routes and activation
(`broker`), and a commit is on disk before the client gets its answer (`store`). Everything that can wait is a task of
`runtime`, so that the same broker runs in real time here and in virtual time in `harness.simulation`. README.md beside
this file says what is supported, what is refused and what differs from SQL Server.

Rules: an unsupported statement is a SQL Server error that names the statement and its line, never silence. Time and
entropy are injected. Only `runtime/realtime.py` and `server/` know asyncio. A number measured here is a number of this
program, never one of SQL Server.
"""
