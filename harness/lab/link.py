"""Installs the workload on every instance and links them, with the scripts of `sql/` and nothing else.

First every side by itself: database, workload, keys, certificates, endpoint. Then every side learns of each other side:
its certificates (CERTENCODED there, FROM BINARY here: no file changes hands), its login and user, its route. The
target knows every initiator, an initiator knows the target.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.lab import scripts
from harness.lab.instances import Instance, Lab, in_parallel
from harness.whitepaper import MAX_QUEUE_READERS

if TYPE_CHECKING:
    import pyodbc

SERVICE = "//MySSB.com/Lab/S_Test"

_BOTH = ("common/database.sql", "common/message_type.sql", "common/contract.sql")
_TARGET = (
    "target/message_drop.sql",
    "target/receive_count.sql",
    "target/message_errors.sql",
    "target/receive_procedure.sql",
    "target/queue.sql",
    "target/service.sql",
)
_INITIATOR = (
    "initiator/queue.sql",
    "initiator/service.sql",
    "initiator/dialogs.sql",
    "initiator/create_dialogs.sql",
    "initiator/warm_up_dialogs.sql",
    "initiator/send_message.sql",
)
_OWN = ("link/endpoint_certificate.sql", "link/dialog_certificate.sql", "link/endpoint.sql")
_REMOTE = (
    "link/endpoint_login.sql",
    "link/import_endpoint_certificate.sql",
    "link/grant_connect.sql",
    "link/dialog_user.sql",
    "link/import_dialog_certificate.sql",
    "link/grant_send.sql",
    "link/route.sql",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What the other sides must know of one side."""

    local_name: str
    broker_address: str
    broker_instance: str
    endpoint_certificate: bytes
    dialog_certificate: bytes
    description: dict[str, Any]  # a row of observe/instance.sql


def link(lab: Lab) -> None:
    """Makes linked instances of empty ones. Running it again changes nothing but routes and imported certificates."""
    lab.variables = {
        "Encryption": "ON",
        "MaxQueueReaders": str(MAX_QUEUE_READERS),
        "ListenerIp": f"({lab.target.host})",
    }
    with _opened(lab.instances) as connections:
        identities = in_parallel(
            lambda instance, connection: _set_up(lab, instance, connection), lab.instances, connections
        )
        target, *initiators = identities
        others = [initiators, *([target] for _ in initiators)]
        in_parallel(lambda *row: _introduce(lab, *row), lab.instances, connections, others)
    lab.identities = [identity.description for identity in identities]


def relink(lab: Lab) -> None:
    """The routes again, after the databases got new broker instances; the lab's identities are read anew."""
    with _opened(lab.instances) as connections:
        described = in_parallel(describe, lab.instances, connections)
        lab.identities = described
        target, *initiators = lab.instances
        remotes = [initiators, *([target] for _ in initiators)]
        guids = {
            instance.name: str(row["service_broker_guid"]).upper()
            for instance, row in zip(lab.instances, described, strict=True)
        }

        def route(instance: Instance, connection: pyodbc.Connection, others: Sequence[Instance]) -> None:
            for other in others:
                variables = _route(local_name(other), guids[other.name], other.broker_address)
                scripts.run(connection, "link/route.sql", variables | {"Database": instance.database})

        in_parallel(route, lab.instances, connections, remotes)


def describe(instance: Instance, connection: pyodbc.Connection) -> dict[str, Any]:
    """The row of observe/instance.sql."""
    scripts.execute(connection, f"USE [{instance.database}];")
    return scripts.rows(connection, "observe/instance.sql", {})[0]


def local_name(instance: Instance) -> str:
    """The side's name in the lab's scripts: Target, Initiator1, ..."""
    return instance.database.removeprefix("SSB")


def _set_up(lab: Lab, instance: Instance, connection: pyodbc.Connection) -> Identity:
    variables = lab.variables | {
        "Database": instance.database,
        "LocalName": local_name(instance),
        "BrokerPort": str(instance.broker_port),
        "MasterKeyPassword": secrets.token_urlsafe(24) + "aA1!",
    }
    for path in (*_BOTH, *(_TARGET if instance is lab.target else _INITIATOR)):
        scripts.run(connection, path, variables)
    scripts.run(connection, "link/master_key.sql", variables | {"Database": "master"})
    scripts.run(connection, "link/master_key.sql", variables)
    for path in _OWN:
        scripts.run(connection, path, variables)
    endpoint = scripts.rows(connection, "link/export_endpoint_certificate.sql", variables)[0]["certificate_binary"]
    dialog = scripts.rows(connection, "link/export_dialog_certificate.sql", variables)[0]["certificate_binary"]
    description = describe(instance, connection)
    return Identity(
        local_name(instance),
        instance.broker_address,
        str(description["service_broker_guid"]).upper(),
        bytes(endpoint),
        bytes(dialog),
        description,
    )


def _introduce(lab: Lab, instance: Instance, connection: pyodbc.Connection, others: Sequence[Identity]) -> None:
    for other in others:
        variables = lab.variables | {
            "Database": instance.database,
            "RemoteName": other.local_name,
            "LoginPassword": secrets.token_urlsafe(24) + "aA1!",
            **_route(other.local_name, other.broker_instance, other.broker_address),
        }
        for path in _REMOTE:
            binary = other.dialog_certificate if "dialog" in path else other.endpoint_certificate
            scripts.run(connection, path, variables | {"CertificateBinary": f"0x{binary.hex().upper()}"})
        if instance is not lab.target:
            scripts.run(connection, "link/remote_service_binding.sql", variables)


def _route(remote_name: str, broker_instance: str, address: str) -> dict[str, str]:
    return {
        "RouteName": f"Test_{remote_name}",
        "ServiceName": SERVICE,
        "BrokerInstance": broker_instance,
        "BrokerAddress": address,
    }


@contextmanager
def _opened(instances: Sequence[Instance]) -> Iterator[list[pyodbc.Connection]]:
    """A connection to each instance's master: the lab's databases need not exist yet."""
    from harness.lab.instances import connections  # noqa: PLC0415

    with connections(instances, "master") as opened:
        yield opened
