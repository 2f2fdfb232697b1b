"""The server's address, its certificate, and what its database holds."""

import socket
import ssl
from dataclasses import dataclass

import pyodbc

from harness.embedded.tds.login import Encryption, Prelogin
from harness.embedded.tds.packets import HEADER_SIZE, PACKET_SIZE_DEFAULT, PacketType, PacketWriter
from harness.embedded.tds.wire import ByteWriter
from harness.lab import drivers

HOST, DATABASE, PASSWORD = "127.0.0.1", "clients", "Clients-1"

SCRIPT = """
CREATE TABLE dbo.kinds (
    id int IDENTITY NOT NULL PRIMARY KEY,
    a_bit bit NULL, a_tinyint tinyint NULL, a_smallint smallint NULL, a_int int NULL, a_bigint bigint NULL,
    a_float float NULL, a_real real NULL, a_decimal decimal(12, 4) NULL, a_money money NULL,
    a_varchar varchar(50) NULL, a_nvarchar nvarchar(50) NULL, a_long nvarchar(max) NULL,
    a_varbinary varbinary(50) NULL, a_date date NULL, a_time time(7) NULL, a_datetime datetime NULL,
    a_datetime2 datetime2(7) NULL, a_offset datetimeoffset(7) NULL, a_guid uniqueidentifier NULL
);
CREATE TABLE dbo.big (id int NOT NULL CONSTRAINT PK_big PRIMARY KEY, body varbinary(max) NOT NULL, words nvarchar(max) NOT NULL);
CREATE TABLE dbo.people (
    id int IDENTITY NOT NULL CONSTRAINT PK_people PRIMARY KEY,
    name nvarchar(40) NOT NULL UNIQUE,
    age int NOT NULL DEFAULT 18,
    born date NULL
);
GO
CREATE PROCEDURE dbo.doubled @n int, @doubled int OUTPUT AS SET NOCOUNT ON; SET @doubled = 2 * @n; RETURN 7;
GO
CREATE PROCEDURE dbo.several AS SELECT 1 AS one; SELECT N'two' AS word, 2 AS number; SELECT 3 AS three WHERE 1 = 0;
GO
CREATE MESSAGE TYPE Words VALIDATION = NONE;
CREATE CONTRACT Talk (Words SENT BY ANY);
CREATE QUEUE dbo.AskQueue; CREATE QUEUE dbo.AnswerQueue;
CREATE SERVICE Asks ON QUEUE dbo.AskQueue (Talk); CREATE SERVICE Answers ON QUEUE dbo.AnswerQueue (Talk);
"""
ASK = """
SET NOCOUNT ON;
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE Asks TO SERVICE 'Answers' ON CONTRACT Talk WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE Words (N'how are you?');
SELECT @h AS handle;
"""
ANSWER = """
SET NOCOUNT ON;
DECLARE @h uniqueidentifier, @body nvarchar(100);
WAITFOR (RECEIVE TOP (1) @h = conversation_handle, @body = message_body FROM dbo.AnswerQueue), TIMEOUT 60000;
SEND ON CONVERSATION @h MESSAGE TYPE Words (@body + N' Fine!');
END CONVERSATION @h;
SELECT @body AS question;
"""
HEAR = """
SET NOCOUNT ON;
WAITFOR (RECEIVE TOP (1) conversation_handle, CAST(message_body AS nvarchar(100)) AS body, message_type_name FROM dbo.AskQueue), TIMEOUT 60000;
"""
HANG_UP = "SET NOCOUNT ON; DECLARE @h uniqueidentifier; SELECT @h = conversation_handle FROM sys.conversation_endpoints WHERE is_initiator = 1; END CONVERSATION @h;"


@dataclass(frozen=True, slots=True)
class Server:
    port: int

    def prepare(self) -> None:
        """Make the database with the first ODBC driver that is installed."""
        driver = drivers.choose()
        where = {"host": HOST, "port": self.port, "user": "sa", "password": PASSWORD, "program": "tests"}
        with pyodbc.connect(driver.connection_string(database="master", **where), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        with pyodbc.connect(driver.connection_string(database=DATABASE, **where), autocommit=True) as connection:
            for batch in SCRIPT.split("GO\n"):
                connection.execute(batch)

    def certificate(self) -> str:
        """The server's certificate in PEM, as a client that validates it must know it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing)
        with socket.create_connection((HOST, self.port)) as connection:
            connection.sendall(_packet(Prelogin((0, 0, 0), Encryption.ON).encode()))
            _read(connection)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(_packet(ByteWriter(outgoing.read())))
                    incoming.write(_read(connection))
            certificate = tls.getpeercert(binary_form=True)
        assert certificate is not None
        return ssl.DER_cert_to_PEM_cert(certificate)


def _packet(payload: ByteWriter) -> bytes:
    return PacketWriter(PacketType.PRELOGIN, PACKET_SIZE_DEFAULT).finish(payload)


def _read(connection: socket.socket) -> bytes:
    """The payload of one packet."""
    header = _exactly(connection, HEADER_SIZE)
    return _exactly(connection, int.from_bytes(header[2:4], "big") - HEADER_SIZE)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        assert part, "the server closed the connection"
        data += part
    return data
