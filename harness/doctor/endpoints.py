"""Check endpoints: they exist, are started, listen where routes lead, and admit the other side's endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.facts import Facts, Row, absent
from harness.doctor.findings import Finding, error, warning
from harness.lab.instances import Security

DEFINITIONS = "sees_server_definitions"


def algorithms(endpoint: Row) -> set[str]:
    """Return the encryption that an endpoint accepts: `AES`, `NONE` or both."""
    return {word.strip().upper() for word in str(endpoint["encryption"]).split(",")}


def check_endpoint(side: Facts, security: Security) -> Iterator[Finding]:
    if not side.knows("endpoint"):
        return
    row = side.row("endpoint")
    if row is None:
        yield absent(side, DEFINITIONS, "endpoint", "there is no Service Broker endpoint", "run sql/link/endpoint.sql")
        return
    name, instance = row["endpoint_name"], side.instance
    if row["state"] != "STARTED":
        remedy = f"ALTER ENDPOINT [{name}] STATE = STARTED;"
        yield error(side.name, "endpoint", f"the endpoint {name} is {row['state']}", remedy)
    if row["port"] != instance.broker_port:
        text = f"the endpoint {name} listens on port {row['port']}, but the routes to it name {instance.broker_port}"
        remedy = f"ALTER ENDPOINT [{name}] AS TCP (LISTENER_PORT = {instance.broker_port});"
        yield error(side.name, "endpoint", text, remedy)
    address = "ALL" if not row["ip_address"] else f"({row['ip_address']})"
    if address != instance.listener_ip:
        text = f"the endpoint {name} listens on {address} instead of {instance.listener_ip}"
        remedy = (
            f"ALTER ENDPOINT [{name}] AS TCP (LISTENER_PORT = {row['port']}, LISTENER_IP = {instance.listener_ip});"
        )
        yield warning(side.name, "endpoint", text, remedy)
    if "CERTIFICATE" not in str(row["authentication"]).upper():
        text = f"the endpoint {name} authenticates by {row['authentication']} instead of by certificate"
        yield error(
            side.name, "endpoint", text, f"DROP ENDPOINT [{name}]; run sql/link/endpoint.sql and grant_connect.sql"
        )
    if ("NONE" not in algorithms(row)) != security.endpoint_encryption:
        wanted = "encryption" if security.endpoint_encryption else "none"
        text = f"the endpoint {name} has encryption {row['encryption']}, but the lab is set to {wanted}"
        yield warning(side.name, "endpoint", text, "link again, or set --endpoint-encryption to what the endpoint has")


def check_encryption(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check that two endpoints accept a common encryption."""
    here, there = side.row("endpoint"), other.row("endpoint")
    if here is None or there is None or algorithms(here) & algorithms(there):
        return
    text = f"the endpoint requires encryption {here['encryption']}, that of {other.name} {there['encryption']}"
    remedy = "give both the same ENCRYPTION: ALTER ENDPOINT ... FOR SERVICE_BROKER (ENCRYPTION = ...)"
    yield error(side.name, "endpoint", f"{text}: they refuse each other", remedy)


def own_certificate(side: Facts) -> Row | None:
    """Return the certificate with which the endpoint identifies itself."""
    endpoint = side.row("endpoint")
    if endpoint is None:
        return None
    wanted = endpoint["certificate_id"]
    found = [row for row in side.rows("endpoint_certificates") if row["certificate_id"] == wanted]
    return found[0] if found else None


def check_certificate(side: Facts) -> Iterator[Finding]:
    """Check the endpoint's own certificate."""
    endpoint = side.row("endpoint")
    if endpoint is None or "CERTIFICATE" not in str(endpoint["authentication"]).upper():
        return
    if not side.knows("endpoint_certificates"):
        return
    row = own_certificate(side)
    if row is None:
        text = f"the certificate of the endpoint {endpoint['endpoint_name']} is not in master"
        remedy = "run sql/link/endpoint_certificate.sql, DROP ENDPOINT, run sql/link/endpoint.sql and grant_connect.sql"
        yield absent(side, DEFINITIONS, "endpoint certificate", text, remedy)
        return
    yield from validity(side, row, "endpoint certificate", "the endpoint's certificate")
    if row["private_key"] != "ENCRYPTED_BY_MASTER_KEY":
        text = f"the private key of the endpoint's certificate {row['certificate_name']} is {row['private_key']}"
        remedy = "create it again with sql/link/endpoint_certificate.sql, under the master key of master"
        yield error(side.name, "endpoint certificate", f"{text}: the server cannot open it", remedy)


def validity(side: Facts, row: Row, check: str, what: str) -> Iterator[Finding]:
    """Check a certificate's dates."""
    name = row["certificate_name"]
    if not row["is_started"]:
        text = f"{what} {name} is not valid before {row['start_date']} UTC"
        yield error(side.name, check, text, "create it again with START_DATE in the past, and check the clock")
    elif row["is_expired"]:
        yield error(
            side.name, check, f"{what} {name} expired on {row['expiry_date']} UTC", "create it again, link again"
        )


def check_admission(side: Facts, other: Facts) -> Iterator[Finding]:
    """Check that the other side's endpoint may connect: its certificate's copy, the copy's owner and his right."""
    endpoint, shown = side.row("endpoint"), own_certificate(other)
    if endpoint is None or shown is None or not side.knows("endpoint_certificates"):
        return
    copies = [row for row in side.rows("endpoint_certificates") if row["thumbprint"] == shown["thumbprint"]]
    if not copies:
        text = f"master has no copy of the certificate {shown['certificate_name']} of {other.name}'s endpoint"
        older = [
            row for row in side.rows("endpoint_certificates") if row["certificate_name"] == shown["certificate_name"]
        ]
        text += " (the certificate of that name is a different one)" if older else ""
        remedy = f"run sql/link/import_endpoint_certificate.sql with the certificate of {other.name}"
        yield absent(side, DEFINITIONS, "endpoint certificate", text, remedy)
        return
    login = copies[0]["login_name"]
    if login is None:
        text = f"the owner {copies[0]['owner_name']} of {other.name}'s certificate has no login"
        yield error(
            side.name, "endpoint rights", text, "run sql/link/endpoint_login.sql, then import the certificate again"
        )
        return
    grants = {row["grantee_name"]: row["state"] for row in side.rows("endpoint_grants")}
    held = {grants.get(login), grants.get("public")}
    remedy = f"GRANT CONNECT ON ENDPOINT::[{endpoint['endpoint_name']}] TO [{login}];"
    if "DENY" in held:
        text = f"{login}, which owns {other.name}'s certificate, is denied CONNECT on the endpoint"
        yield error(side.name, "endpoint rights", text, f"REVOKE the denial, and {remedy}")
    elif not held & {"GRANT", "GRANT_WITH_GRANT_OPTION"} and side.knows("endpoint_grants"):
        text = f"{login}, which owns {other.name}'s certificate, may not CONNECT to the endpoint"
        yield absent(side, DEFINITIONS, "endpoint rights", text, remedy)
