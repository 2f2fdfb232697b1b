"""The embedded Service Broker as a process: sockets, logins, its life and its end. All of its asyncio is here.

- `tds_listener`: the TDS port. A connection is a protocol object and a session; a request is a task. Bytes are decoded
  where they arrive and the scheduler runs in the same turn of the loop.
- `authentication`: logins. `datatype_info`: the one question about data types that every driver asks first.
- `broker_transport`, `broker_records`: broker to broker, over connections of their own.
- `certificate`: the self-signed certificate behind `Encrypt=yes;TrustServerCertificate=yes`.
- `serve`, `lifetime`: `harness serve`: parts built, store recovered, one line of JSON when it listens; the end by
  SIGTERM, by the end of the parent, or by a bug.

Rules. One thread, but for the store's flushes. It listens on the loopback interface unless the operator says otherwise
(`--host`); over loopback a client that does not ask for encryption gets none, password included. A password is never
logged. A bug that an assertion finds ends the process: an instance that goes on in an unknown state would spoil a
measurement that looks good.
"""
