"""ADD SIGNATURE and DROP SIGNATURE: a signed module has the permissions of the principals that were made from the
certificate (`permissions.guard`).

Only procedures, triggers and functions are signed, and only with certificates.
https://learn.microsoft.com/sql/t-sql/statements/add-signature-transact-sql
"""

from harness.embedded.broker import ddl_principals
from harness.embedded.broker.definitions import Certificate
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance.modules import Module
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements.definitions import Check, Definition, ObjectName, define, on_object
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens


def _subject(tokens: Tokens, word: str) -> tuple[ObjectName, str]:
    """`{ TO | FROM } [ OBJECT :: ] module BY CERTIFICATE name`"""
    tokens.expect(word)
    tokens.accept("OBJECT", "::")
    module = tokens.object_name()
    tokens.expect("BY")
    if not tokens.accept("CERTIFICATE"):
        tokens.unsupported(f"a signature BY {tokens.word()}")
    return module, tokens.name()


def _found(frame: Frame, module_name: ObjectName, certificate_name: str) -> tuple[Module, Certificate]:
    instance, database = frame.instance, frame.database
    finders = (instance.procedure, instance.trigger, instance.function)
    module = next((module for find in finders if (module := find(module_name, database)) is not None), None)
    if module is None:
        written = ".".join(module_name)
        raise (
            SqlServerError(15560, written)
            if instance.is_taken(module_name, database)
            else SqlServerError(15151, "find", "object", written)
        )
    certificate = database.catalog.principals.certificate(certificate_name)
    if certificate is None:
        raise SqlServerError(15151, "find", "certificate", certificate_name)
    return module, certificate


def _check(module_name: ObjectName, certificate_name: str) -> Check:
    def check(frame: Frame, guard: Guard) -> None:
        on_object("find", "OBJECT", module_name)(frame, guard)
        on_object("find", "CERTIFICATE", (certificate_name,), "CONTROL")(frame, guard)

    return check


def _change(frame: Frame, tx: Transaction, module: Module, certificate: Certificate, signature: str | None) -> None:
    tx.on_rollback(lambda: frame.instance.renew_signers(module))  # the last thing that a rollback does here
    frame.instance.grants.set_signature(tx, module.securable, certificate.thumbprint.hex(), signature)
    frame.instance.renew_signers(module)


@define("ADD SIGNATURE")
def add_signature(parser: Parser) -> Definition:
    """`ADD SIGNATURE TO [ OBJECT :: ] module BY CERTIFICATE name [ WITH PASSWORD = '..' ]`"""
    tokens = parser.tokens
    module_name, certificate_name = _subject(tokens, "TO")
    password = None
    if tokens.accept("WITH"):
        if not tokens.accept("PASSWORD", "="):
            tokens.unsupported(f"ADD SIGNATURE WITH {tokens.word()}")
        password = tokens.string()

    def work(frame: Frame, tx: Transaction) -> None:
        module, certificate = _found(frame, module_name, certificate_name)
        if certificate.thumbprint.hex() in module.signers:
            raise SqlServerError(15557, "signature", "certificate", certificate_name)
        signature = ddl_principals.signature(frame.database.catalog, certificate, password, module.text.encode())
        _change(frame, tx, module, certificate, signature.hex())

    return Definition(parser.line, _check(module_name, certificate_name), work)


@define("DROP SIGNATURE")
def drop_signature(parser: Parser) -> Definition:
    """`DROP SIGNATURE FROM [ OBJECT :: ] module BY CERTIFICATE name`"""
    module_name, certificate_name = _subject(parser.tokens, "FROM")

    def work(frame: Frame, tx: Transaction) -> None:
        module, certificate = _found(frame, module_name, certificate_name)
        if certificate.thumbprint.hex() not in module.signers:
            raise SqlServerError(15558, "signature", "certificate", certificate_name)
        _change(frame, tx, module, certificate, None)

    return Definition(parser.line, _check(module_name, certificate_name), work)
