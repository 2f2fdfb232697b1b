"""Install the workload on every instance and link them, with the scripts of `sql/` only.

First each side is set up alone: database, tables and queue with the scripts of the lab's workload, keys, certificates,
endpoint, and on an initiator the test clients' login. Then each side gets what it needs of each other: certificates
(exported with CERTENCODED and created FROM BINARY, without files), a login and a user, a route. The target knows all
initiators, an initiator knows the target.

Instances that were linked before are changed to `lab.security`: the endpoint is altered, and dialog security is added
or removed. Without dialog security dialogs begin with ENCRYPTION = OFF, there is no remote service binding, and
everybody who may connect to the endpoint may send.

`change_workload` gives a linked lab other procedures, or others of their settings. `remove_conversations` resets it.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.files.script_text import ScriptError
from harness.files.workload_file import Receiving, Workload, WorkloadError
from harness.lab import client_procedure, pool_dialogs, queue_readers, scripts
from harness.lab.drivers import Connection, Secret
from harness.lab.instances import Instance, Lab, LabError, Login, connections, in_parallel

Variables = dict[str, str]

DATA_SIZE_MB = LOG_SIZE_MB = 256  # at first: a run enlarges them by what its cells need (`doctor.space`)

_DATABASE = ("common/database.sql", "common/files.sql")
_CONTRACT = ("common/message_type.sql", "common/contract.sql")  # unless the workload's scripts have created them
_OTHER_TABLES = "target/drop_tables.sql"
_MATCHING = {  # of the target, unless messages are counted
    "clustered": ("target/message_drop.sql", "target/receive_count.sql"),
    "heap": ("target/message_drop_heap.sql", "target/receive_count_heap.sql"),
}
_TARGET = ("target/message_errors.sql", "target/queue.sql")
_ACTIVATION = "target/activation.sql"
_TARGET_SERVICE = (_ACTIVATION, "target/service.sql")  # after the workload's scripts
_INITIATOR = (
    "initiator/queue.sql",
    "initiator/service.sql",
    "initiator/dialogs.sql",
    "initiator/create_dialogs.sql",
    "initiator/warm_up_dialogs.sql",
    "initiator/client_login.sql",
)
_OPTIONS = ("common/priority.sql", "common/retention.sql")
_GROUPS = "initiator/group_dialogs.sql"  # where a workload's dialogs share conversation groups
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
class FileSizes:
    """Megabytes of the files of a database."""

    data: int
    log: int


@dataclass(frozen=True, slots=True)
class Remote:
    """A side as the variables of the other sides' scripts have it."""

    route: dict[str, str]  # of link/route.sql
    endpoint_certificate: str  # 0x...
    dialog_certificate: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts about one side that the other sides need."""

    instance: Instance
    description: dict[str, Any]  # a row of observe/instance.sql
    endpoint_certificate: bytes = b""
    dialog_certificate: bytes = b""  # empty without dialog security

    @property
    def as_remote(self) -> Remote:
        """What the other sides' scripts are told."""
        return Remote(
            route_to(self.instance, str(self.description["service_broker_guid"]).upper()),
            f"0x{self.endpoint_certificate.hex().upper()}",
            f"0x{self.dialog_certificate.hex().upper()}",
        )


def route_to(instance: Instance, broker_instance: str) -> dict[str, str]:
    """Return the variables of link/route.sql on the sides that know an instance."""
    return {
        "RouteName": f"Test_{local_name(instance)}",
        "ServiceName": instance.service,
        "BrokerInstance": broker_instance,
        "BrokerAddress": instance.broker_address,
    }


def link(lab: Lab) -> None:
    """Set up and link instances, empty or linked before. Each initiator's clients get a new password."""
    target = lab.workload.target
    if not target.scripts and "PROCEDURE" not in lab.target.kept:
        raise WorkloadError(
            f"{lab.workload.where('target')}: no script of the target creates {target.activation_procedure}: name one "
            "under target.scripts, or an existing_database in lab.toml that has it"
        )
    name_variables(lab)
    # Connections to master, because the lab's databases need not exist yet.
    with connections(lab.instances, "master") as opened:
        identities = in_parallel(partial(_set_up, lab), lab.instances, opened)
        in_parallel(partial(_introduce, lab), lab.instances, opened, _others(identities))
    lab.identities = [identity.description for identity in identities]


def name_variables(lab: Lab) -> None:
    """Set the variables of the lab's scripts, and what its instances call its queues and services."""
    target = lab.workload.target
    for instance in lab.instances:
        instance.names, instance.retention = lab.workload.names, lab.workload.queue.retention
    lab.variables = {
        "Prefix": lab.prefix,
        "Encryption": "ON" if lab.security.dialog else "OFF",
        "EndpointEncryption": "REQUIRED ALGORITHM AES" if lab.security.endpoint_encryption else "DISABLED",
        "DataSizeMb": str(DATA_SIZE_MB),
        "LogSizeMb": str(LOG_SIZE_MB),
        "ActivationProcedure": target.activation_procedure,
        "Priority": str(lab.workload.dialogs.priority),
        "Retention": "ON" if lab.workload.queue.retention else "OFF",
        **target.script_variables,
    }


def adopt(lab: Lab) -> None:
    """Make a lab ready that somebody has set up and linked with the same scripts: without conversations."""
    name_variables(lab)
    with connections(lab.initiators) as opened:
        in_parallel(partial(_check_client, lab), lab.initiators, opened)
    remove_conversations(lab)


def relink(lab: Lab) -> None:
    """Create the routes again after the databases got new broker instances, and read the lab's identities again."""

    def route(instance: Instance, connection: Connection, far_sides: Sequence[Identity]) -> None:
        for other in far_sides:
            scripts.run(connection, "link/route.sql", other.as_remote.route | {"Database": instance.database})

    with connections(lab.instances, "master") as opened:
        lab.identities = in_parallel(describe, lab.instances, opened)
        identities = [Identity(*side) for side in zip(lab.instances, lab.identities, strict=True)]
        in_parallel(route, lab.instances, opened, _others(identities))


def _others(identities: Sequence[Identity]) -> list[Sequence[Identity]]:
    """Return the sides that each side knows: the target all initiators, an initiator the target."""
    target, *initiators = identities
    return [initiators, *([target] for _ in initiators)]


def describe(instance: Instance, connection: Connection) -> dict[str, Any]:
    """Return the row of observe/instance.sql."""
    scripts.execute(connection, f"USE [{instance.database}];")
    return scripts.rows(connection, "observe/instance.sql", {})[0]


def local_name(instance: Instance) -> str:
    """Return the side's name in the lab's scripts: Target, Initiator1, ..."""
    return "".join(part.capitalize() for part in instance.name.split("-"))


def remove_conversations(lab: Lab) -> None:
    """Remove all conversations on all sides and link the new broker instances.

    This disconnects all sessions in the databases: connections held elsewhere must be opened again. NEW_BROKER removes
    conversations with their messages and session keys. Queues, services, certificates, users and remote service
    bindings remain, and msdb's route AutoCreatedLocal finds any broker instance. Only what names the old broker
    instance is created again: the routes here, the dialogs by `dialog_pool.build`. A queue that five rollbacks have
    disabled is turned on. In a database that existed before only the dialogs of the pool are ended.
    """

    def new_broker(instance: Instance, connection: Connection) -> None:
        variables = lab.variables | instance.variables
        queue = _ACTIVATION if instance is lab.target else "initiator/queue.sql"
        for path in ("reset/broker.sql", queue):
            if path not in _left_alone(instance):
                scripts.run(connection, path, variables)

    with connections(lab.instances, "master") as opened:
        target, *initiators = zip(lab.instances, opened, strict=True)
        pool_dialogs.end(target, initiators)
        in_parallel(new_broker, lab.instances, opened)
    relink(lab)


def set_up_scripts(workload: Workload, *, is_target: bool) -> list[str]:
    """Return the files that make a side's database, its objects and its clients' login, in their order."""
    both = (*_DATABASE, *workload.both_scripts, *_CONTRACT)
    if is_target:
        matching = () if workload.is_counted else _MATCHING[workload.target.tables]
        return [*both, *matching, *_TARGET, *workload.target_scripts, *_TARGET_SERVICE]
    groups = [_GROUPS] if workload.dialogs.per_group > 1 else []
    return [*both, *_INITIATOR, *groups, *workload.initiator_scripts]


def _left_alone(instance: Instance) -> set[str]:
    """Return the files that are not run in a database that existed before, or had the workload's queue or service."""
    paths: set[str] = set()
    if instance.is_existing:
        paths |= {"common/database.sql", "common/files.sql", "common/priority.sql", "reset/broker.sql"}
    if "QUEUE" in instance.kept:
        paths |= {"target/queue.sql", _ACTIVATION, "initiator/queue.sql", "common/retention.sql"}
    if "SERVICE" in instance.kept:
        paths |= {"link/revoke_send_public.sql", "link/grant_send_public.sql"}
    return paths


def creation(lab: Lab, instance: Instance, variables: Variables) -> Iterator[tuple[str, Variables]]:
    """Yield the files that make a side's database and its objects, in their order, each with its variables."""
    workload, left_alone = lab.workload, _left_alone(instance)
    is_target = instance is lab.target
    of_workload = {*workload.both_scripts, *workload.initiator_scripts, *workload.target_scripts}
    paths = set_up_scripts(workload, is_target=is_target)
    if not lab.kind.can.virtual_time:  # whose times no question may change, and whose workload has no such options
        paths += _OPTIONS
    for path in paths:
        if path not in left_alone:
            yield path, variables | (workload.script_variables if path in of_workload else {})
    if not is_target and "PROCEDURE" in instance.kept:
        yield "initiator/grant_client.sql", variables | {"ClientProcedure": workload.client.procedure}
    if is_target and not instance.is_existing and not lab.kind.can.virtual_time:
        yield from _tables(lab)


def securing(lab: Lab, instance: Instance, variables: Variables) -> Iterator[tuple[str, Variables]]:
    """Yield the files that give a side its endpoint, keys and certificates, each with its variables."""
    # Conversations of an earlier link do not belong to this lab, and may be secured differently.
    paths = ["reset/broker.sql", *_OWN]
    paths += ["link/master_key.sql", *_SECURED_OWN] if lab.security.dialog else _UNSECURED_OWN
    for path in paths:
        if path == _OWN[0]:
            yield "link/master_key.sql", variables | {"Database": "master"}
        if path not in _left_alone(instance):
            yield path, variables


def introduction(lab: Lab, instance: Instance, variables: Variables, other: Remote) -> Iterator[tuple[str, Variables]]:
    """Yield the files that make another side known to one, each with its variables."""
    for path in (*_REMOTE, *(_SECURED_REMOTE if lab.security.dialog else ())):
        certificate = other.dialog_certificate if "dialog" in path else other.endpoint_certificate
        yield path, {**variables, **other.route, "CertificateBinary": certificate}
    if instance is not lab.target:
        yield _BINDING if lab.security.dialog else _NO_BINDING, {**variables, **other.route}


def side_variables(lab: Lab, instance: Instance, master_key_password: str) -> Variables:
    """Return the variables of a side's files, but for the password of its clients."""
    return {
        **lab.variables,
        **instance.variables,
        "LocalName": local_name(instance),
        "BrokerPort": str(instance.broker_port),
        "ListenerIp": instance.listener_ip,
        "MasterKeyPassword": master_key_password,
    }


def _set_up(lab: Lab, instance: Instance, connection: Connection) -> Identity:
    variables = side_variables(lab, instance, _password())
    if instance is not lab.target:
        client = Login(f"{lab.prefix}Client", _password())
        variables["ClientPassword"] = client.password
        instance.client = client
    for path, values in creation(lab, instance, variables):
        scripts.run(connection, path, values)
    if instance is not lab.target:
        _check_client(lab, instance, connection)
    for path, values in securing(lab, instance, variables):
        scripts.run(connection, path, values)
    description = describe(instance, connection)
    return Identity(
        instance,
        description,
        export_certificate(connection, "endpoint", variables),
        export_certificate(connection, "dialog", variables) if lab.security.dialog else b"",
    )


def enlarge_files(lab: Lab, wanted: Mapping[str, FileSizes]) -> None:
    """Enlarge files of the lab's databases to these sizes, by the names of instances; a larger one stays as it is."""

    def enlarge(instance: Instance, connection: Connection) -> None:
        sizes = wanted[instance.name]
        variables = {"Database": instance.database, "DataSizeMb": str(sizes.data), "LogSizeMb": str(sizes.log)}
        scripts.run(connection, "common/files.sql", variables)

    instances = [instance for instance in lab.instances if instance.name in wanted]
    with connections(instances) as opened:
        in_parallel(enlarge, instances, opened)


def _check_client(lab: Lab, instance: Instance, connection: Connection) -> None:
    """Raise WorkloadError unless the clients' procedure exists and takes what they pass."""
    workload, client = lab.workload, lab.workload.client
    if lab.kind.can.virtual_time and client.parameters[1:] == ("body",):
        return  # as in the paper, whose times no question may change
    scripts.execute(connection, f"USE [{instance.database}];")
    takes = client_procedure.declared(connection, client.procedure)
    if takes is None:
        raise WorkloadError(
            f"{workload.where('client', 'procedure')}: no script of the initiator creates {client.procedure}: name it "
            "under initiator.scripts"
        )
    client_procedure.check(workload, takes)


def export_certificate(connection: Connection, kind: str, variables: dict[str, str]) -> bytes:
    """Return the public part of a side's endpoint or dialog certificate."""
    path = f"link/export_{kind}_certificate.sql"
    binary = scripts.rows(connection, path, variables)[0]["certificate_binary"]
    if binary is None:
        raise ScriptError(f"{path}: the login may not see the certificate: GRANT VIEW ANY DEFINITION TO the login")
    return bytes(binary)


def _password() -> Secret:
    return Secret(secrets.token_urlsafe(24) + "aA1!")  # satisfies every password policy of SQL Server


def _introduce(lab: Lab, instance: Instance, connection: Connection, far_sides: Sequence[Identity]) -> None:
    for other in far_sides:
        variables = {
            **lab.variables,
            **instance.variables,
            "RemoteName": local_name(other.instance),
            "LoginPassword": _password(),
        }
        for path, values in introduction(lab, instance, variables, other.as_remote):
            scripts.run(connection, path, values)


def _tables(lab: Lab) -> Iterator[tuple[str, Variables]]:
    """Yield the files that create the tables of processed messages anew if they are not as the workload says."""
    workload = lab.workload
    if not workload.is_counted:
        variables = {"Database": lab.target.database, "Tables": workload.target.tables.upper()}
        for path in (_OTHER_TABLES, *_MATCHING[workload.target.tables]):
            yield path, variables


# -- another workload --------------------------------------------------------------------------------------------------


def change_workload(lab: Lab, workload: Workload) -> None:
    """Install another workload, or the same with other settings; its dialogs and all that `link` makes of them stay.

    Nothing may be sent meanwhile. A running reader keeps the procedure that it was started with, and lowering
    MAX_QUEUE_READERS ends none. So this first waits until the running readers have timed out; LabError if they do not.
    """
    _require_own_queue(lab.target)
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    before, lab.workload = lab.workload, workload
    if (before.digests, before.variables, before.client) != (workload.digests, workload.variables, workload.client):
        with connections(lab.initiators) as initiators:
            for instance, connection in zip(lab.initiators, initiators, strict=True):
                variables = lab.variables | instance.variables | workload.script_variables
                for path in workload.initiator_scripts:
                    scripts.run(connection, path, variables)
                _check_client(lab, instance, connection)
    with connections([lab.target]) as (target,):
        queue_readers.wait_until_at_most(
            0, lab, target, timeout_s=timeout_before_ms / 1000 + queue_readers.END_WITHIN_S
        )
        if before.target.tables != workload.target.tables:
            for path, values in _tables(lab):
                scripts.run(target, path, values)
        lab.variables["ActivationProcedure"] = workload.target.activation_procedure
        _install(lab, target, workload.target)


def retain(lab: Lab, *, retention: bool) -> None:
    """Let all queues retain messages from now on, or no longer; retained ones stay until their conversations end."""
    if retention == lab.target.retention:
        return
    lab.variables["Retention"] = "ON" if retention else "OFF"
    with connections(lab.instances) as opened:
        for instance, connection in zip(lab.instances, opened, strict=True):
            _require_own_queue(instance)
            scripts.run(connection, "common/retention.sql", lab.variables | instance.variables)
            instance.retention = retention


def stop_activation(lab: Lab) -> None:
    """Let messages gather in the target's queue until `apply_to_new_readers`. Call it when no reader runs."""
    with connections([lab.target]) as (target,):
        scripts.run(target, "target/stop_activation.sql", lab.variables | lab.target.variables)


def apply_to_new_readers(lab: Lab, receiving: Receiving) -> None:
    """Let the lab's workload receive with other settings while messages arrive: readers started from now on do so."""
    timeout_before_ms = int(lab.variables["ReceiveTimeoutMs"])
    with connections([lab.target]) as (target,):
        _install(lab, target, receiving)
    # Running readers keep their timeout, and the next `change_workload` waits for them.
    lab.variables["ReceiveTimeoutMs"] = str(max(timeout_before_ms, receiving.receive_timeout_ms))


def _require_own_queue(instance: Instance) -> None:
    if "QUEUE" in instance.kept:
        raise LabError(
            f"the queue {instance.queue} of {instance.database} existed before and stays as it is: other settings "
            "need a queue that the lab creates"
        )


def _install(lab: Lab, target: Connection, receiving: Receiving) -> None:
    lab.variables |= receiving.script_variables
    variables = lab.variables | lab.target.variables
    for path in lab.workload.target_scripts:
        scripts.run(target, path, variables | lab.workload.script_variables)
    scripts.run(target, _ACTIVATION, variables)
