"""Instances of SQL Server and how they become a lab: one target, its initiators, linked, with dialogs.

The differences between kinds of lab end here. Each kind starts instances, or signs in to a user's own, and says how to
connect to them. Everything after that is plain T-SQL from `sql/`, sent through pyodbc, the same on every kind:

- `opening`: which lab the options select; `with opening.open(topology, ...) as lab:` opens and links it; how to connect
- `instances`: `Instance` and `Lab`: connection strings, broker addresses, whether and how an instance has died
- `embedded_instances`: instances as child processes `harness serve`
- `containers`: SQL Server in containers on this machine; `compose` runs Docker Compose and reads `.env`
- `passwords`: new ones that SQL Server accepts; `log_storage`: how SQL Server in a container flushes its log
- `placement`: which processors of this machine instances and clients have, and what instances share
- `user_servers`: a user's own servers, and the rights that its login needs; `ledger`: what the harness owns on them
- `processes`: child processes that die with their parent and report how they died
- `drivers`: ODBC drivers on this machine, and connection strings
- `scripts`: runs files by sqlcmd's conventions: `GO`, `$(Variable)`
- `instance_clock`: the clock of an instance's machine
- `link`: keys, certificates, endpoints, routes, bindings; how the target receives; removes all conversations
- `dialog_pool`: begins dialogs, warms them up, waits until every message sent has been processed, empties the tables
- `error_remedies`: remedies for connection and SQL errors
- `interruption`: Ctrl-C during ODBC calls
- `pulse`: whether every instance still answers; one that does not is told of, and soon counts as dead

Start instances from the main thread (see `processes`). Blocking calls to several instances run in one native thread
each (`instances.in_parallel`). No `repr`, log or command line contains a password. Passwords lie in two files, both
readable by this user alone: `.env` holds that of the containers, and `lab open` writes that of an embedded lab beside
its data.
"""
