"""What a client can observe of Service Broker, through a real ODBC driver.

Every expectation is SQL Server's own (Microsoft's manual, or the articles named in the test); the tests know nothing of
the server behind the connection.
"""
