"""Signatures: what a signed module may do, and what becomes of signatures."""

import pytest

from tests.embedded.tsql.sides import Side, World
from tests.embedded.tsql.test_permissions import as_login

SET_UP = """
CREATE DATABASE here
GO
CREATE DATABASE there
GO
USE there
CREATE TABLE dbo.noted (body nvarchar(100))
GO
CREATE PROCEDURE dbo.note AS INSERT dbo.noted VALUES (N'x')
GO
USE here
CREATE TABLE dbo.secret (body nvarchar(100)); INSERT dbo.secret VALUES (N's')
GO
CREATE PROCEDURE dbo.owners WITH EXECUTE AS OWNER AS EXEC there.dbo.note
GO
CREATE PROCEDURE dbo.inner_one AS EXEC (N'SELECT body FROM dbo.secret')
GO
CREATE PROCEDURE dbo.callers AS EXEC (N'SELECT body FROM dbo.secret')
GO
CREATE PROCEDURE dbo.outer_one AS EXEC dbo.inner_one
GO
CREATE PROCEDURE dbo.sessions AS SELECT COUNT(*) FROM sys.dm_exec_sessions
GO
CREATE LOGIN ann WITH PASSWORD = 'Pp1!aaaaaaaa'
CREATE USER ann
GRANT EXECUTE TO ann
CREATE CERTIFICATE signer ENCRYPTION BY PASSWORD = 'Pp1!aaaaaaaa' WITH SUBJECT = 'signs'
"""
SIGN = "ADD SIGNATURE TO OBJECT::dbo.{} BY CERTIFICATE signer WITH PASSWORD = 'Pp1!aaaaaaaa'"


@pytest.fixture
def side() -> Side:
    return World().side("Here", set_up=SET_UP)


def with_the_certificate(side: Side, database: str, batch: str) -> None:
    """Run a batch in another database that has the certificate too."""
    [(blob,)] = side.rows("SELECT CERTENCODED(CERT_ID('signer'))")
    side.run(f"USE {database}; CREATE CERTIFICATE signer FROM BINARY = 0x{blob.hex()}; {batch}")
    side.run("USE here")


def test_a_signed_procedure_has_the_permissions_of_the_certificates_user(side):
    ann = as_login(side, "ann", "here")
    assert side.error("EXEC dbo.callers", ann).number == 229
    side.run(SIGN.format("callers") + "; CREATE USER signer FROM CERTIFICATE signer; GRANT SELECT TO signer")
    assert side.rows("EXEC dbo.callers", ann) == [("s",)]
    assert side.error("SELECT body FROM dbo.secret", ann).number == 229
    side.run("REVOKE SELECT FROM signer")
    assert side.error("EXEC dbo.callers", ann).number == 229


def test_a_procedure_that_a_signed_one_calls_has_them_not(side):
    ann = as_login(side, "ann", "here")
    side.run(SIGN.format("outer_one") + "; CREATE USER signer FROM CERTIFICATE signer; GRANT SELECT TO signer")
    assert side.error("EXEC dbo.outer_one", ann).number == 229
    side.run(SIGN.format("inner_one"))
    assert side.rows("EXEC dbo.outer_one", ann) == [("s",)]


def test_with_authenticate_a_signed_procedure_leaves_its_database(side):
    assert side.error("EXEC dbo.owners").number == 916
    side.run(SIGN.format("owners"))
    with_the_certificate(side, "there", "CREATE USER signer FROM CERTIFICATE signer")
    assert side.error("EXEC dbo.owners").number == 916
    side.run("USE there; GRANT AUTHENTICATE TO signer; USE here")
    side.run("EXEC dbo.owners")
    assert side.rows("SELECT body FROM there.dbo.noted") == [("x",)]


def test_authenticate_server_is_authenticate_in_each_database(side):
    side.run(SIGN.format("owners"))
    with_the_certificate(
        side, "master", "CREATE LOGIN signer FROM CERTIFICATE signer; GRANT AUTHENTICATE SERVER TO signer"
    )
    side.run("EXEC dbo.owners")
    assert side.rows("SELECT body FROM there.dbo.noted") == [("x",)]


def test_a_signed_procedure_has_the_permissions_of_the_certificates_login(side):
    ann = as_login(side, "ann", "here")
    assert side.value("EXEC dbo.sessions", ann) == 1
    side.run(SIGN.format("sessions"))
    with_the_certificate(
        side, "master", "CREATE LOGIN signer FROM CERTIFICATE signer; GRANT VIEW SERVER STATE TO signer"
    )
    assert side.value("EXEC dbo.sessions", ann) > 1
    types = "SELECT type_desc FROM sys.server_principals WHERE name = 'signer'"
    assert side.value(types) == "CERTIFICATE_MAPPED_LOGIN"


def test_signatures_survive_a_crash_but_not_a_change_of_the_procedure(side):
    shown = "SELECT OBJECT_NAME(major_id), crypt_type FROM here.sys.crypt_properties"
    side.run(SIGN.format("callers") + "; CREATE USER signer FROM CERTIFICATE signer; GRANT SELECT TO signer")
    side.world.run_for(1)
    side.crash()
    side.run("USE here")
    assert side.rows(shown) == [("callers", "SPVC")]
    assert side.rows("EXEC dbo.callers", as_login(side, "ann", "here")) == [("s",)]
    side.run("ALTER PROCEDURE dbo.callers AS EXEC (N'SELECT body FROM dbo.secret')")
    assert side.rows(shown) == []
    assert side.error("EXEC dbo.callers", as_login(side, "ann", "here")).number == 229


def test_a_rollback_takes_a_signature_back(side):
    side.run("CREATE USER signer FROM CERTIFICATE signer; GRANT SELECT TO signer")
    side.run(f"BEGIN TRANSACTION; {SIGN.format('callers')}; ROLLBACK")
    assert side.error("EXEC dbo.callers", as_login(side, "ann", "here")).number == 229
    side.run(SIGN.format("callers"))
    side.run("BEGIN TRANSACTION; DROP SIGNATURE FROM dbo.callers BY CERTIFICATE signer; ROLLBACK")
    assert side.rows("EXEC dbo.callers", as_login(side, "ann", "here")) == [("s",)]


REFUSED = {
    "ADD SIGNATURE TO dbo.secret BY CERTIFICATE signer": 15560,
    "ADD SIGNATURE TO dbo.none BY CERTIFICATE signer": 15151,
    "ADD SIGNATURE TO dbo.callers BY CERTIFICATE none": 15151,
    "ADD SIGNATURE TO dbo.callers BY CERTIFICATE signer": 15556,  # the password is missing
    SIGN.format("owners"): 15557,
    "DROP SIGNATURE FROM dbo.callers BY CERTIFICATE signer": 15558,
    "DROP CERTIFICATE signer": 15559,
    "DROP USER signer; DROP CERTIFICATE signer": 15352,
    "ALTER CERTIFICATE signer REMOVE PRIVATE KEY; ALTER CERTIFICATE signer REMOVE PRIVATE KEY": 15563,
    "GRANT SHOWPLAN TO ann": 50001,
    "GRANT SING TO ann": 102,
    "CREATE USER other FROM CERTIFICATE none": 15151,
    "ADD SIGNATURE TO dbo.callers BY ASYMMETRIC KEY k": 50001,
    "ADD COUNTER SIGNATURE TO dbo.callers BY CERTIFICATE signer": 50001,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(side, text):
    side.run(SIGN.format("owners") + "; CREATE USER signer FROM CERTIFICATE signer")
    assert side.error(text).number == REFUSED[text]


def test_without_its_private_key_a_certificate_signs_nothing(side):
    side.run("ALTER CERTIFICATE signer REMOVE PRIVATE KEY")
    shown = "SELECT pvt_key_encryption_type_desc FROM sys.certificates WHERE name = 'signer'"
    assert side.value(shown) == "NO_PRIVATE_KEY"
    assert side.error(SIGN.format("callers")).number == 15556
