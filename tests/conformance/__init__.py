"""Service Broker as a client sees it, through a real ODBC driver.

Every expectation is SQL Server's own (Microsoft's manual, or the article named in the test); the tests know nothing of
the server behind the connection. They run on the embedded broker and, if available, on SQL Server (`servers`); choose
with `-m sqlserver` and `-m "not sqlserver"`. `test_probes` holds behaviour that no source settles. `--record FILE`
writes every statement and its answer to a file, for `tests/parity`.
"""
