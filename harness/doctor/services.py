"""Check the database's broker, the service with its owner, queue and activation, the contract and its message type."""

from collections.abc import Iterator
from itertools import combinations

from harness.doctor.facts import Facts, Finding, Row
from harness.files.script_text import quoted

_OWNER = -2  # execute_as_principal_id of EXECUTE AS OWNER


def check_broker(side: Facts) -> Iterator[Finding]:
    """Check the brokers of the database and of msdb, and that no two databases have the same one."""
    brokers = side.rows("brokers")
    by_name = {str(row["database_name"]).lower(): row for row in brokers}
    database = by_name.get(side.instance.database.lower())
    if database is not None and not database["is_broker_enabled"]:
        text = f"the broker of {database['database_name']} is disabled: it neither sends nor receives"
        remedy = f"ALTER DATABASE {quoted(database['database_name'])} SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;"
        yield side.error("broker", text, remedy)
    msdb = by_name.get("msdb")
    if msdb is not None and not msdb["is_broker_enabled"]:
        text = "the broker of msdb is disabled: messages from the network are not delivered"
        yield side.error("broker", text, "ALTER DATABASE [msdb] SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;")
    for first, other in combinations(brokers, 2):
        if database in (first, other) and first["service_broker_guid"] == other["service_broker_guid"]:
            text = f"{first['database_name']} and {other['database_name']} have the same service_broker_guid"
            copy = first if other is database else other
            remedy = f"ALTER DATABASE {quoted(copy['database_name'])} SET NEW_BROKER WITH ROLLBACK IMMEDIATE;"
            yield side.error("broker", f"{text}: each receives messages for the other", remedy)


def check_owner(side: Facts) -> Iterator[Finding]:
    """Check that the server can act as the database's owner, as for activation, EXECUTE AS OWNER and deliveries."""
    row = side.row("owner")
    if row is not None and row["problem"] is not None:
        text = f"the server cannot act as the owner of {row['database_name']}: {row['problem']}"
        yield side.error("owner", text, f"ALTER AUTHORIZATION ON DATABASE::{quoted(row['database_name'])} TO [sa];")


def check_service(side: Facts, *, is_target: bool, max_queue_readers: str) -> Iterator[Finding]:
    if not side.knows("service"):
        return
    row = side.row("service")
    folder = "target" if is_target else "initiator"
    if row is None:
        yield side.error("service", f"there is no service {side.instance.service}", f"run sql/{folder}/service.sql")
        return
    queue = f"{row['queue_schema_name']}.{row['queue_name']}"
    disabled = [direction for direction in ("receive", "enqueue") if not row[f"is_{direction}_enabled"]]
    if disabled:
        text = f"the queue {queue} is disabled for {' and '.join(disabled)}, as after five rollbacks in a row"
        yield side.error("queue", text, f"see dbo.messageErrors for the cause; ALTER QUEUE {queue} WITH STATUS = ON;")
    if is_target:
        yield from _check_activation(side, row, queue, max_queue_readers)


def _check_activation(side: Facts, row: Row, queue: str, max_queue_readers: str) -> Iterator[Finding]:
    if not row["activation_procedure"]:
        yield side.error("activation", f"{queue} has no activation procedure", "run sql/target/activation.sql")
        return
    if row["procedure_id"] is None:
        text = f"the activation procedure {row['activation_procedure']} of {queue} does not exist"
        yield side.error(
            "activation",
            text,
            "run the target's scripts of its workload, such as sql/workloads/paper/receive_procedure.sql",
        )
    if not row["is_activation_enabled"]:
        remedy = f"ALTER QUEUE {queue} WITH ACTIVATION (STATUS = ON);"
        yield side.error("activation", f"activation of {queue} is disabled: no reader starts", remedy)
    readers = str(row["max_readers"])
    if readers != max_queue_readers:
        text = f"{queue} has MAX_QUEUE_READERS = {readers} instead of {max_queue_readers}"
        remedy = f"ALTER QUEUE {queue} WITH ACTIVATION (MAX_QUEUE_READERS = {max_queue_readers});"
        yield (side.error if readers == "0" else side.warning)("activation", text, remedy)
    principal = row["execute_as_principal_id"]
    if principal is None or (principal != _OWNER and row["execute_as_name"] is None):
        text = f"{queue} activates as {'nobody' if principal is None else f'user {principal}, which does not exist'}"
        remedy = f"ALTER QUEUE {queue} WITH ACTIVATION (EXECUTE AS OWNER);"
        yield side.error("activation", text, remedy)


def check_contract(side: Facts, *, is_target: bool) -> Iterator[Finding]:
    if not side.knows("contract"):
        return
    service, names = side.instance.service, side.instance.names
    contract, message_type = names.contract, names.message_type
    rows = [row for row in side.rows("contract") if row["message_type_name"] == message_type]
    if not side.rows("contract"):
        yield side.error("contract", f"there is no contract {contract}", "run sql/common/contract.sql")
        return
    if not rows:
        text = f"the contract {contract} has no message type {message_type}"
        yield side.error("contract", text, "drop service and contract, run sql/common/contract.sql and service.sql")
        return
    if not rows[0]["is_sent_by_initiator"]:
        text = f"the contract {contract} does not let the initiator send {message_type}"
        yield side.error("contract", text, "drop service and contract, run sql/common/contract.sql and service.sql")
    if is_target and side.row("service") is not None and not any(row["is_offered"] for row in rows):
        text = f"the service {service} does not offer the contract {contract}: it refuses every dialog"
        yield side.error("contract", text, f"ALTER SERVICE {quoted(service)} (ADD CONTRACT {quoted(contract)});")


def check_agreement(target: Facts, initiator: Facts) -> Iterator[Finding]:
    """Check that both sides define contract and message type alike. Messages are validated where they arrive."""
    near, far = _usage(initiator), _usage(target)
    if not near or not far:
        return
    for name in sorted(near.keys() ^ far.keys()):
        contract = initiator.instance.names.contract
        text = f"{name} is in the contract {contract} on one side only (target or {initiator.name})"
        yield initiator.error("message type", text, "drop service and contract there and link again")
    for name in sorted(near.keys() & far.keys()):
        (validation, *use), (validation_there, *use_there) = near[name], far[name]
        if validation != validation_there:
            text = f"{name} is validated as {validation} here and as {validation_there} on the target"
            validation_needed = "NONE" if validation_there == "BINARY" else validation_there
            remedy = f"ALTER MESSAGE TYPE {quoted(name)} VALIDATION = {validation_needed};"
            yield initiator.error("message type", text, remedy)
        if use != use_there:
            text = f"{name} may be sent by other sides than on the target"
            yield initiator.error("message type", text, "drop service and contract there and link again")


def _usage(side: Facts) -> dict[str, tuple[str, bool, bool]]:
    return {
        str(row["message_type_name"]): (
            "BINARY" if row["validation"] == "NONE" else str(row["validation"]),
            bool(row["is_sent_by_initiator"]),
            bool(row["is_sent_by_target"]),
        )
        for row in side.rows("contract")
    }
