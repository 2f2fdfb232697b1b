"""Logins, users, certificates and endpoints, compiled to calls of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import DATETIME2, SqlType
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.permissions.fixed_principals import DATABASE_ROLES
from harness.embedded.tsql.permissions.grants import SERVER, Securable
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.storage import moments
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.syntax import security as nodes


def create_master_key(node: nodes.CreateMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: frame.database.create_master_key(tx))


def drop_master_key(node: nodes.DropMasterKey, scope: Scope) -> Step:
    return writing(lambda frame, tx: frame.database.drop_master_key(tx))


def _moment_ns(text: str) -> int | None:
    if not text:
        return None
    moment = converter(SqlType("varchar", length=30), DATETIME2)(text)
    return (moments.ticks(moment) - moments.EPOCH_DAYS * moments.TICKS_A_DAY) * 100


def create_certificate(node: nodes.CreateCertificate, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
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
            owner=node.owner or frame.session.user_name(),
        )

    return writing(work)


def create_login(node: nodes.CreateLogin, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        engine = frame.instance.engine
        engine.create_login(tx, node.name, password=node.password, from_certificate=node.certificate)
        frame.instance.grants.touch(tx)

    return writing(work)


def alter_login(node: nodes.AlterLogin, scope: Scope) -> Step:
    return writing(
        lambda frame, tx: frame.instance.engine.alter_login(tx, node.name, password=node.password, enable=node.enable)
    )


def create_user(node: nodes.CreateUser, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if node.login is not None and node.login.lower() not in frame.instance.engine.logins:
            raise SqlServerError(15007, node.login)
        if node.name.lower() in DATABASE_ROLES:
            raise SqlServerError(15023, node.name)
        frame.database.create_user(tx, node.name, login=node.login)
        frame.instance.grants.touch(tx)

    return writing(work)


def alter_user(node: nodes.AlterUser, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        frame.database.alter_user(tx, node.name, login=node.login)
        frame.instance.grants.touch(tx)

    return writing(work)


def _forget(frame: Frame, tx: Transaction, node: nodes.DropPrincipal) -> None:
    """What the principal was given, and what others were given on the endpoint, goes with it."""
    grants = frame.instance.grants
    if node.kind == "LOGIN":
        grants.forget_principal(tx, SERVER, node.name.lower())
    elif node.kind == "USER":
        grants.forget_principal(tx, frame.database.database_id, node.name.lower())
    elif node.kind == "ENDPOINT" and (endpoint := frame.instance.engine.broker_endpoint) is not None:
        grants.forget_securable(tx, Securable(SERVER, "ENDPOINT", endpoint.endpoint_id))


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
            _forget(frame, tx, node)
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
            return
        created = engine.create_endpoint(tx, node.name, **options)
        if frame.session.guard is not None:
            owner = frame.session.guard.login.lower()
            frame.instance.grants.set_owner(tx, Securable(SERVER, "ENDPOINT", created.endpoint_id), owner)

    return writing(work)
