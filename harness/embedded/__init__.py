"""The embedded Service Broker: the part of SQL Server that Service Broker applications touch, as one process.

Not a database. A client logs in over TDS (`tds`, `server`), its T-SQL (`tsql`) drives conversations, queues, routes and
activation (`broker`), and a commit is on disk before the client hears of it (`store`). Whatever can wait is a task of
`runtime`, so that the same broker runs in real time here and in virtual time in `harness.simulation`.

Rules: a statement that is not supported is a SQL Server error that names statement and line, never silence. Time and
entropy are injected. Only `runtime/realtime.py` and `server/` know asyncio. A number measured here is a number of
this program, never one of SQL Server.
"""
