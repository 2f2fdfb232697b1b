"""[MS-TDS], the server's side, without I/O: bytes in, requests out; results in, bytes out.

    bytes -> packets -> Connection -> requests          Response <- what a session reports
             (header)   (states)      (requests, login7)   tokens -> packets -> bytes

A *packet* has an 8-byte header; a *message* is one or more packets and is what a request or a response travels in
(`packets`). `Connection` knows what may come when, answers PRELOGIN, TLS and a late Attention itself, and hands out the
rest: `Login7`, `SqlBatch`, `Rpc`, `TransactionRequest`, `Attention`, or `Refused` for what is understood and not
supported. `Response` is the sink a session reports to; it turns results into tokens and decides which DONE says what.

Rules.
1. No sockets, no time, no tasks; nothing of T-SQL or Service Broker. `server` puts both ends together.
2. What breaks the specification is a `TdsProtocolError` and costs the connection. What is well-formed but unsupported
   (bulk load, table-valued parameters, a date that does not exist) is a `SqlServerError` and costs the request.
3. One request at a time: no MARS. TDS 7.2 to 7.4. TLS up to 1.2, inside PRELOGIN (`tls`).
4. Only tokens and types that are used here have a name here. Values are those of `sqltypes`.
5. A call of a procedure is the hot path: a hundred thousand of them pass here in a run. In `packets`, `requests`,
   `value_decoding` and `wire`, plain numbers stand where members of an IntFlag would be tested, and known answers are bytes.

Deliberately absent: cursors of the server (sp_cursor...: the session's to refuse), bulk load, MARS, session recovery,
Always Encrypted, Windows authentication, TDS 8.0, ROW compression (NBCROW), COMPUTE. Passwords are neither logged nor
shown; `Login7` keeps its own out of its repr.
"""
