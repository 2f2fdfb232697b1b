"""What a client can observe of Service Broker, through a real ODBC driver.

Every expectation is SQL Server's own (Microsoft's manual, or the articles named in the test); the tests know nothing of
the server behind the connection. They run on the embedded broker and, where there is one, on SQL Server (`servers`);
`-m sqlserver` and `-m "not sqlserver"` choose. `test_probes` holds what no source settles. `--record FILE` writes every
statement and its answer down, for `tests/parity`.
"""
