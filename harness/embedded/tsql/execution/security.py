"""Logins, users, certificates, endpoints and permissions, compiled to calls of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import DATETIME2, SqlType
from harness.embedded.tsql.conversion import converter
from harness.embedded.tsql.execution.frame import Frame
from harness.embedded.tsql.execution.steps import Scope, Step
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.queries import dates
from harness.embedded.tsql.syntax import security as nodes


def create_master_key(node: nodes.CreateMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: frame.database.create_master_key(tx))


def drop_master_key(node: nodes.DropMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: frame.database.drop_master_key(tx))


def _moment_ns(text: str) -> int | None:
    if not text:
        return None
    moment = converter(SqlType("varchar", length=30), DATETIME2)(text)
    return (dates.ticks(moment) - dates.EPOCH_DAYS * dates.TICKS_A_DAY) * 100


def create_certificate(node: nodes.CreateCertificate, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        owner: dict[str, Any] = {"owner": node.owner} if node.owner else {}
        frame.database.create_certificate(
            tx,
            node.name,
            subject=node.subject,
            blob=node.binary,
            private_key=node.private_key,
            has_password=node.has_password,
            start_ns=_moment_ns(node.start_date),
            expiry_ns=_moment_ns(node.expiry_date),
            active_for_begin_dialog=node.active_for_begin_dialog,
            **owner,
        )

    return writing(work)


def create_login(node: nodes.CreateLogin, scope: Scope) -> Step:
    return writing(
        lambda frame, tx: ignore(
            frame.instance.engine.create_login(tx, node.name, password=node.password, from_certificate=node.certificate)
        )
    )


def alter_login(node: nodes.AlterLogin, scope: Scope) -> Step:
    return writing(
        lambda frame, tx: frame.instance.engine.alter_login(tx, node.name, password=node.password, enable=node.enable)
    )


def create_user(node: nodes.CreateUser, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if node.login is not None and node.login.lower() not in frame.instance.engine.logins:
            raise SqlServerError(15007, node.login)
        frame.database.create_user(tx, node.name, login=node.login)

    return writing(work)


def alter_user(node: nodes.AlterUser, scope: Scope) -> Step:
    return writing(lambda frame, tx: frame.database.alter_user(tx, node.name, login=node.login))


def ignore(_: object) -> None:
    """For calls whose result nobody needs."""


Drop = Callable[[Frame, Transaction, str], None]

# kind -> whether it exists, how it is dropped
PRINCIPALS: dict[str, tuple[Callable[[Frame, str], bool], Drop]] = {
    "LOGIN": (
        lambda frame, name: name.lower() in frame.instance.engine.logins,
        lambda frame, tx, name: frame.instance.engine.drop_login(tx, name),
    ),
    "USER": (
        lambda frame, name: name.lower() in frame.database.principals.users,
        lambda frame, tx, name: frame.database.drop_user(tx, name),
    ),
    "CERTIFICATE": (
        lambda frame, name: frame.database.certificate(name) is not None,
        lambda frame, tx, name: frame.database.drop_certificate(tx, name),
    ),
    "ENDPOINT": (
        lambda frame, name: frame.instance.engine.broker_endpoint is not None,
        lambda frame, tx, name: frame.instance.engine.drop_endpoint(tx, name),
    ),
}


def drop_principal(node: nodes.DropPrincipal, scope: Scope) -> Step:
    exists, drop = PRINCIPALS[node.kind]

    def work(frame: Frame, tx: Transaction) -> None:
        if not node.if_exists or exists(frame, node.name):
            drop(frame, tx, node.name)

    return writing(work)


def endpoint(node: nodes.Endpoint, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(226, f"{node.verb} ENDPOINT")
        engine = frame.instance.engine
        given = {
            "state": node.state,
            "port": node.port,
            "authentication": node.authentication,
            "certificate": node.certificate,
            "encryption": node.encryption,
            "algorithm": node.algorithm,
        }
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if node.ip is not None:
            options["ip"] = None if node.ip == "ALL" else node.ip
        if node.verb == "ALTER":
            engine.alter_endpoint(tx, node.name, **options)
        else:
            engine.create_endpoint(tx, node.name, **options)

    return writing(work)


def permission(node: nodes.Permission, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for grantee in node.grantees:
            for name in node.permissions:
                _permit(frame, tx, node, name, grantee)

    return writing(work)


def _permit(frame: Frame, tx: Transaction, node: nodes.Permission, name: str, grantee: str) -> None:
    if node.securable_class == "ENDPOINT" and name == "CONNECT" and node.verb == "GRANT":
        frame.instance.engine.grant_connect(tx, node.securable[-1], grantee)
        return
    securable = ".".join(node.securable)
    if node.securable_class == "OBJECT":
        _, schema, name_ = frame.instance.located(node.securable, frame.database)
        securable = f"{schema}.{name_}"
        if not _object_exists(frame, node.securable):
            raise SqlServerError(15151, node.verb.lower(), "object", securable)
    if node.verb == "GRANT":
        frame.database.grant(tx, name, node.securable_class, securable, grantee)
    elif node.verb == "REVOKE":
        frame.database.revoke(tx, name, node.securable_class, securable, grantee)
    else:
        raise UnsupportedSyntax("DENY", node.line)


def _object_exists(frame: Frame, parts: tuple[str, ...]) -> bool:
    instance = frame.instance
    database, schema, name = instance.located(parts, frame.database)
    return (
        instance.table(parts, frame.database) is not None
        or instance.procedure(parts, frame.database) is not None
        or f"{schema}.{name}".lower() in database.queues
        or schema.lower() == "sys"
    )


def alter_authorization(node: nodes.AlterAuthorization, scope: Scope) -> Step:
    """Owners matter to certificates (whose dialogs they secure) and services; a database's is always its creator."""

    def work(frame: Frame, tx: Transaction) -> None:
        if node.securable_class != "DATABASE":
            raise UnsupportedSyntax(f"ALTER AUTHORIZATION ON {node.securable_class}", node.line)
        frame.instance.database(node.securable[-1])

    return writing(work)
