"""[MS-TDS], the server's side, without I/O: bytes in, requests out; results in, bytes out.

    bytes -> packets -> Connection -> requests          Response <- what a session reports
             (header)   (states)      (requests, login)    tokens -> packets -> bytes

A *packet* has an 8-byte header; a *message* is one or more packets and carries a request or a response (`packets`).
`Connection` knows which packet may come when, answers PRELOGIN, TLS and a late Attention itself, and hands out the
rest: `Login7`, `SqlBatch`, `Rpc`, `TransactionRequest`, `BulkLoad`, `Attention`, or `Refused` for what it understands
and does not support. `Response` is the sink that a session reports to; it turns results into tokens and decides what
each DONE says.

Rules.
1. No sockets, no time, no tasks; nothing of T-SQL or Service Broker. `server` connects both ends.
2. What breaks the specification is a `TdsProtocolError` and costs the connection. What is well-formed but unsupported
   (table-valued parameters, a date that does not exist) is a `SqlServerError` and costs the request.
3. One request at a time: no MARS. TDS 7.2 to 7.4. TLS up to 1.2, inside PRELOGIN (`login`).
4. Only tokens and types that are used have a name here. Values are those of `sqltypes`.
5. A procedure call is the hot path: a run makes hundreds of thousands. `packets`, `requests`, `value_decoding` and
   `wire` test plain numbers instead of members of an IntFlag, and frequent answers are encoded once.

Deliberately absent: server cursors (sp_cursor...: the session refuses them), MARS, session recovery, Always Encrypted,
Windows authentication, TDS 8.0, ROW compression (NBCROW) of results, COMPUTE. Passwords are neither logged nor shown;
`Login7` leaves its own out of its repr.
"""
