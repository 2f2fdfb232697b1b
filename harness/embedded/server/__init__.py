"""The embedded Service Broker as a process: sockets, logins, start and end. All asyncio code is here, on uvloop.

- `tds_listener`: the TDS port. A connection is a protocol object and a session; a request is a task. Bytes are decoded
  where they arrive, and the scheduler runs in the same turn of the loop.
- `statement_budget`: what one statement may use before others go on. `memory`: what all of them may.
- `authentication`: logins, and the self-signed certificate behind `Encrypt=yes;TrustServerCertificate=yes`. `passwords`
  hashes passwords for the store, `attempts` slows the guessing of them.
- `broker_transport`: broker to broker, over connections of their own.
- `unproved`: places for connections at either port before the peer has proved who it is.
- `data_folder`: who may use and read the data. `error_log_file` and `log`: the instance's error log, and the server's.
- `serve`: `harness serve` builds the parts, recovers the store, prints a line of JSON when it listens, and ends by
  SIGTERM, with its parent, or by a bug.

Rules. One thread, except for the store's flushes and the hashes of logins' passwords. The server listens on the
loopback interface unless the operator says otherwise (`--host`). There a client that does not ask for encryption gets
none, not even for its password; from other machines only clients that encrypt are let in. What a client sent stands in
a log only as `log` writes it. Passwords are never logged. A failed assertion ends the process: an instance in an
unknown state would spoil measurements unnoticed.
"""
