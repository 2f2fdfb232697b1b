"""Install the workload on every instance and link them, with the scripts of `sql/` only.

First each side is set up alone: database, workload, keys, certificates, endpoint, and on an initiator the test clients'
login. Then each side gets what it needs of each other side: certificates (exported with CERTENCODED and created FROM
BINARY, without files), a login and a user, a route. The target knows all initiators, an initiator knows the target.

Instances that were linked before are changed to `lab.security`: the endpoint is altered, and dialog security is added
or removed. Without dialog security dialogs begin with ENCRYPTION = OFF, there is no remote service binding, and
everybody who may connect to the endpoint may send.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.lab import scripts
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, Lab, Login, connections, in_parallel
from harness.lab.scripts import ScriptError
from harness.whitepaper import MAX_QUEUE_READERS, RECEIVE_TIMEOUT_MS, RECEIVE_TOP

if TYPE_CHECKING:
    import pyodbc

SERVICE = "//MySSB.com/Lab/S_Test"
# Sizes with which no file should grow while a cell is measured; `file_io` records whether one did. The target stores
# 2,000 bytes of every message (1.6 GB for 20,000 a second during 40 s) and whatever waits in its queue. An initiator's
# messages leave at once. Creating a log takes time, because it is written once in full.
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
# Dialog security, on a side alone and for each other side; and what removes it.
_SECURED_OWN = ("link/dialog_certificate.sql", "link/revoke_send_public.sql")
_SECURED_REMOTE = ("link/dialog_user.sql", "link/import_dialog_certificate.sql", "link/grant_send.sql")
_BINDING = "link/remote_service_binding.sql"  # on initiators
_UNSECURED_OWN = ("link/grant_send_public.sql",)
_NO_BINDING = "link/drop_remote_service_binding.sql"


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts about one side that the other sides need."""

    local_name: str
    broker_address: str
    broker_instance: str
    endpoint_certificate: bytes
    dialog_certificate: bytes  # empty without dialog security
    description: dict[str, Any]  # a row of observe/instance.sql


def link(lab: Lab) -> None:
    """Set up and link instances, empty or linked before. Each initiator's clients get a new password."""
    lab.variables = {
        "Prefix": lab.prefix,
        "Encryption": "ON" if lab.security.dialog else "OFF",
        "EndpointEncryption": "REQUIRED ALGORITHM AES" if lab.security.endpoint_encryption else "DISABLED",
        "MaxQueueReaders": str(MAX_QUEUE_READERS),
        "ReceiveTop": str(RECEIVE_TOP),
        "ReceiveTimeoutMs": str(RECEIVE_TIMEOUT_MS),
        "LogSizeMb": str(LOG_SIZE_MB),
    }
    # Connections to master, because the lab's databases need not exist yet.
    with connections(lab.instances, "master") as opened:
        identities = in_parallel(lambda instance, connection: _set_up(lab, instance, connection), lab.instances, opened)
        target, *initiators = identities
        others = [initiators, *([target] for _ in initiators)]
        in_parallel(lambda *row: _introduce(lab, *row), lab.instances, opened, others)
    lab.identities = [identity.description for identity in identities]


def relink(lab: Lab) -> None:
    """Create the routes again after the databases got new broker instances, and read the lab's identities again."""
    with connections(lab.instances, "master") as opened:
        described = in_parallel(describe, lab.instances, opened)
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

        in_parallel(route, lab.instances, opened, remotes)


def describe(instance: Instance, connection: pyodbc.Connection) -> dict[str, Any]:
    """Return the row of observe/instance.sql."""
    scripts.execute(connection, f"USE [{instance.database}];")
    return scripts.rows(connection, "observe/instance.sql", {})[0]


def local_name(instance: Instance) -> str:
    """Return the side's name in the lab's scripts: Target, Initiator1, ..."""
    return "".join(part.capitalize() for part in instance.name.split("-"))


def turn_queue_on(lab: Lab, instance: Instance, connection: pyodbc.Connection) -> None:
    """Turn the side's queue on again, in case five rollbacks have disabled it."""
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
    # Conversations of an earlier link do not belong to this lab, and may be secured differently.
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
        export_certificate(connection, "endpoint", variables),
        export_certificate(connection, "dialog", variables) if lab.security.dialog else b"",
        description,
    )


def export_certificate(connection: pyodbc.Connection, kind: str, variables: dict[str, str]) -> bytes:
    """Return the public part of a side's endpoint or dialog certificate."""
    path = f"link/export_{kind}_certificate.sql"
    binary = scripts.rows(connection, path, variables)[0]["certificate_binary"]
    if binary is None:
        raise ScriptError(f"{path}: the login may not see the certificate: GRANT VIEW ANY DEFINITION TO the login")
    return bytes(binary)


def _password() -> Secret:
    return Secret(secrets.token_urlsafe(24) + "aA1!")  # satisfies every password policy of SQL Server


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
