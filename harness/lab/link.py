"""Installs the workload on every instance and links them, with the scripts of `sql/` and nothing else.

First every side by itself: database, workload, keys, certificates, endpoint, and on an initiator the test clients'
login. Then every side learns of each other side: its certificates (CERTENCODED there, FROM BINARY here: no file changes
hands), its login and user, its route. The target knows every initiator, an initiator knows the target.

Instances that were linked before end up as `lab.security` says now: the endpoint is altered, and dialog security is
taken back or put in place. Without it dialogs are begun with ENCRYPTION = OFF, no remote service binding stands against
that, and everybody who gets through the endpoint may send.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.lab import scripts
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, Lab, Login, in_parallel
from harness.lab.scripts import ScriptError
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TIMEOUT_MS, RECEIVE_TOP

if TYPE_CHECKING:
    import pyodbc

SERVICE = "//MySSB.com/Lab/S_Test"
# The files of each database, so that none grows while a cell is measured; `file_io` shows whether one did. The target
# keeps 2,000 bytes of every message of a cell, 1.6 GB of 20,000 a second for 40 s, and whatever waits in its queue; an
# initiator's messages leave it at once. A log is written through once before it can be used, which takes its time.
TARGET_DATA_SIZE_MB, INITIATOR_DATA_SIZE_MB = 4096, 1024
LOG_SIZE_MB = 2048

_BOTH = ("common/database.sql", "common/files.sql", "common/message_type.sql", "common/contract.sql")
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
    "initiator/send_message_on_new_dialog.sql",
    "initiator/client_login.sql",
    "initiator/client_grants.sql",
)
_OWN = ("link/endpoint_certificate.sql", "link/endpoint.sql")
_REMOTE = (
    "link/endpoint_login.sql",
    "link/import_endpoint_certificate.sql",
    "link/grant_connect.sql",
    "link/route.sql",
)
# Dialog security, on a side by itself and for each other side; and what takes it back.
_SECURED_OWN = ("link/dialog_certificate.sql", "link/revoke_send_public.sql")
_SECURED_REMOTE = ("link/dialog_user.sql", "link/import_dialog_certificate.sql", "link/grant_send.sql")
_BINDING = "link/remote_service_binding.sql"  # on initiators
_UNSECURED_OWN = ("link/grant_send_public.sql",)
_NO_BINDING = "link/drop_remote_service_binding.sql"


@dataclass(frozen=True, slots=True)
class Identity:
    """What the other sides must know of one side."""

    local_name: str
    broker_address: str
    broker_instance: str
    endpoint_certificate: bytes
    dialog_certificate: bytes  # empty without dialog security
    description: dict[str, Any]  # a row of observe/instance.sql


def link(lab: Lab) -> None:
    """Makes linked instances of empty ones, or of linked ones; gives each initiator's clients a new password."""
    lab.variables = {
        "Prefix": lab.prefix,
        "Encryption": "ON" if lab.security.dialog else "OFF",
        "EndpointEncryption": "REQUIRED ALGORITHM AES" if lab.security.endpoint_encryption else "DISABLED",
        "MaxQueueReaders": str(MAX_QUEUE_READERS),
        "ReceiveTop": str(RECEIVE_TOP),
        "ReceiveTimeoutMs": str(RECEIVE_TIMEOUT_MS),
        "LogSizeMb": str(LOG_SIZE_MB),
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
    return "".join(part.capitalize() for part in instance.name.split("-"))


def turn_queue_on(lab: Lab, instance: Instance, connection: pyodbc.Connection) -> None:
    """The side's queue takes messages again, should five rollbacks have disabled it."""
    path = "target/queue.sql" if instance is lab.target else "initiator/queue.sql"
    scripts.run(connection, path, lab.variables | {"Database": instance.database})


def _set_up(lab: Lab, instance: Instance, connection: pyodbc.Connection) -> Identity:
    variables = lab.variables | {
        "Database": instance.database,
        "LocalName": local_name(instance),
        "BrokerPort": str(instance.broker_port),
        "ListenerIp": instance.listener_ip,
        "DataSizeMb": str(TARGET_DATA_SIZE_MB if instance is lab.target else INITIATOR_DATA_SIZE_MB),
        "MasterKeyPassword": _password(),
    }
    if instance is not lab.target:
        client = Login(f"{lab.prefix}Client", _password())
        variables["ClientPassword"] = client.password
        instance.client = client
    for path in (*_BOTH, *(_TARGET if instance is lab.target else _INITIATOR)):
        scripts.run(connection, path, variables)
    # Conversations of an earlier link are none of this lab's dialogs, and may be secured otherwise.
    scripts.run(connection, "reset/broker.sql", variables)
    scripts.run(connection, "link/master_key.sql", variables | {"Database": "master"})
    for path in _OWN:
        scripts.run(connection, path, variables)
    if lab.security.dialog:
        scripts.run(connection, "link/master_key.sql", variables)
    for path in _SECURED_OWN if lab.security.dialog else _UNSECURED_OWN:
        scripts.run(connection, path, variables)
    description = describe(instance, connection)
    return Identity(
        local_name(instance),
        instance.broker_address,
        str(description["service_broker_guid"]).upper(),
        _exported(connection, "endpoint", variables),
        _exported(connection, "dialog", variables) if lab.security.dialog else b"",
        description,
    )


def _exported(connection: pyodbc.Connection, kind: str, variables: dict[str, str]) -> bytes:
    path = f"link/export_{kind}_certificate.sql"
    binary = scripts.rows(connection, path, variables)[0]["certificate_binary"]
    if binary is None:
        raise ScriptError(f"{path}: the login does not see the certificate: GRANT VIEW ANY DEFINITION TO the login")
    return bytes(binary)


def _password() -> Secret:
    return Secret(secrets.token_urlsafe(24) + "aA1!")  # whatever a server's policy asks for


def _introduce(lab: Lab, instance: Instance, connection: pyodbc.Connection, others: Sequence[Identity]) -> None:
    for other in others:
        variables = lab.variables | {
            "Database": instance.database,
            "RemoteName": other.local_name,
            "LoginPassword": _password(),
            **_route(other.local_name, other.broker_instance, other.broker_address),
        }
        for path in (*_REMOTE, *(_SECURED_REMOTE if lab.security.dialog else ())):
            binary = other.dialog_certificate if "dialog" in path else other.endpoint_certificate
            scripts.run(connection, path, variables | {"CertificateBinary": f"0x{binary.hex().upper()}"})
        if instance is not lab.target:
            scripts.run(connection, _BINDING if lab.security.dialog else _NO_BINDING, variables)


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
