"""Check dialog security: master keys, each side's certificate, the other side's copy of it, binding, right to send."""

from collections.abc import Iterator

from harness.doctor.facts import Facts, Finding, Row
from harness.doctor.transport import end_of_validity, other_of_that_name, validity
from harness.files.script_text import quoted
from harness.lab.instances import Security

_PRIVATE = "ENCRYPTED_BY_MASTER_KEY"
_DEFINITIONS = "sees_database_definitions"


def check_master_keys(side: Facts, security: Security) -> Iterator[Finding]:
    """Check the master keys: master's protects the endpoint's certificate, the database's that of the dialogs."""
    needed = {"master": "sees_server_definitions"}
    if security.dialog:
        needed[side.instance.database] = _DEFINITIONS
    for row in side.rows("master_keys"):
        name = str(row["database_name"])
        right = needed.get(name)
        if right is None:
            continue
        if not row["master_keys"]:
            remedy = f"run sql/link/master_key.sql with Database={name}"
            yield side.absent(right, "master key", f"the database {name} has no master key", remedy)
        elif not row["is_master_key_encrypted_by_server"]:
            text = f"the server cannot open the master key of {name} without its password"
            remedy = (
                f"in {name}: OPEN MASTER KEY with its password, ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY;"
            )
            yield side.error("master key", text, remedy)


def own_certificate(side: Facts) -> Row | None:
    """Return the certificate that secures this side's dialogs: of the service's owner's, the one that expires last."""
    usable = [row for row in _own_certificates(side) if not list(_faults(side, row))]
    return max(usable, key=lambda row: row["expiry_date"]) if usable else None


def _own_certificates(side: Facts) -> list[Row]:
    service = side.row("service")
    owner = service["owner_name"] if service else "dbo"
    rows = [row for row in side.rows("dialog_certificates") if row["owner_name"] == owner]
    return [row for row in rows if row["private_key"] != "NO_PRIVATE_KEY"]


def _faults(side: Facts, row: Row) -> Iterator[Finding]:
    yield from validity(side, row, "dialog certificate", "the certificate of the dialogs")
    name = row["certificate_name"]
    if row["private_key"] != _PRIVATE:
        text = f"the private key of {name} is {row['private_key']}: the server cannot open it"
        yield side.error("dialog certificate", text, "create it again with sql/link/dialog_certificate.sql, link again")
    if not row["is_active_for_begin_dialog"]:
        remedy = f"ALTER CERTIFICATE {quoted(name)} WITH ACTIVE FOR BEGIN_DIALOG = ON;"
        yield side.error("dialog certificate", f"{name} is not active for BEGIN DIALOG", remedy)


def check_certificate(side: Facts) -> Iterator[Finding]:
    """Check this side's own certificate."""
    if not side.knows("dialog_certificates"):
        return
    if (own := own_certificate(side)) is not None:
        yield from end_of_validity(side, own, "dialog certificate", "the certificate of its dialogs")
        return
    candidates = _own_certificates(side)
    for row in candidates:
        yield from _faults(side, row)
    if not candidates:
        text = "the service's owner has no certificate with a private key"
        remedy = "run sql/link/dialog_certificate.sql and import the certificate's public part on the other sides"
        yield side.absent(_DEFINITIONS, "dialog certificate", text, remedy)


def _copy(side: Facts, other: Facts) -> Row | None:
    """Return this side's copy of the certificate that secures the other side's dialogs."""
    certificate = own_certificate(other)
    copies = [
        row
        for row in side.rows("dialog_certificates")
        if certificate and row["thumbprint"] == certificate["thumbprint"]
    ]
    return copies[0] if copies else None


def check_copy(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check the copy of the other side's certificate, which verifies its messages and encrypts for it."""
    certificate = own_certificate(other)
    if certificate is None or not side.knows("dialog_certificates") or _copy(side, other) is not None:
        return
    text = f"there is no copy of the certificate {certificate['certificate_name']} of {other.name}"
    text += other_of_that_name(side.rows("dialog_certificates"), certificate)
    remedy = f"run sql/link/import_dialog_certificate.sql with the certificate of {other.name}"
    yield side.absent(_DEFINITIONS, "certificate copy", text, remedy)


def check_binding(initiator: Facts, target: Facts) -> Iterator[Finding]:
    """Check that an initiator's binding names the user who owns the copy of the target's certificate."""
    if not initiator.knows("bindings"):
        return
    row, copy = initiator.row("bindings"), _copy(initiator, target)
    remedy = "run sql/link/remote_service_binding.sql"
    if row is None:
        text = f"there is no remote service binding for {target.instance.service}: no certificate secures the dialogs"
        yield initiator.absent(_DEFINITIONS, "binding", text, remedy)
    elif copy is not None and row["user_name"] != copy["owner_name"]:
        text = f"the binding {row['binding_name']} names {row['user_name']}"
        text += f", but {copy['owner_name']} owns the copy of the target's certificate"
        yield initiator.error("binding", text, remedy)
    if row is not None and row["is_anonymous_on"]:
        text = f"the binding {row['binding_name']} is anonymous: the target cannot tell who sends"
        yield initiator.warning(
            "binding", text, f"ALTER REMOTE SERVICE BINDING {quoted(row['binding_name'])} WITH ANONYMOUS = OFF;"
        )


def check_right_to_send(side: Facts, other: Facts, *, is_target: bool) -> Iterator[Finding]:
    """Check that the owner of the copy of the other side's certificate may SEND; on an initiator, for answers."""
    copy, service = _copy(side, other), side.row("service")
    if copy is None or service is None or not side.knows("service_grants"):
        return
    user = str(copy["owner_name"])
    if user == service["owner_name"] or may_send(side, user):
        return
    text = f"the user {user}, which represents {other.name}, may not send to {side.instance.service}"
    remedy = f"GRANT SEND ON SERVICE::{quoted(side.instance.service)} TO {quoted(user)};"
    yield (side.error if is_target else side.warning)("right to send", text, remedy)


def may_send(side: Facts, user: str) -> bool:
    """Return whether a user may send to the lab's service."""
    states = {row["state"] for row in side.rows("service_grants") if row["grantee_name"] in (user, "public")}
    return "DENY" not in states and bool(states)


def check_unsecured(side: Facts, *, is_target: bool) -> Iterator[Finding]:
    """Check a lab without dialog security: no binding may secure its dialogs, and everybody may send."""
    row = side.row("bindings")
    if row is not None:
        text = f"the binding {row['binding_name']} secures dialogs, but the lab is set to unsecured dialogs"
        yield side.error("binding", text, f"DROP REMOTE SERVICE BINDING {quoted(row['binding_name'])};")
    if side.row("service") is None or not side.knows("service_grants") or may_send(side, "public"):
        return
    text = f"public may not send to {side.instance.service}, and dialogs without security identify no other sender"
    yield (side.error if is_target else side.warning)("right to send", text, "run sql/link/grant_send_public.sql")
