"""Remedies for what Service Broker says about a message that it cannot deliver.

`sys.transmission_queue.transmission_status` and a dialog's Error messages contain texts without numbers. They are
recognised by words in them ("Database engine events and errors", 8000-9999 and 28000-28999).
"""

from __future__ import annotations

_MASTER_KEY = "in the sender's database run sql/link/master_key.sql: the server must open the key without a password"
_HOST = "the host in the route's address is unknown here: see broker_host in lab.toml"
_ADDRESS = "the route's address must be TCP://host:port: ALTER ROUTE ... WITH ADDRESS"
_PORT = "open the other endpoint's port between the machines (firewall, published port)"
_ENABLE_BROKER = "ALTER DATABASE ... SET ENABLE_BROKER"
_NO_SERVICE = "the route leads to an instance without the service: link again"
_BROKER_INSTANCE = "the route names another broker instance: run sql/link/route.sql with the present one"
_MULTI_USER = "ALTER DATABASE ... SET MULTI_USER"
_GRANT_SEND = "GRANT SEND ON SERVICE there to the user that owns this side's certificate (sql/link/grant_send.sql)"

# Words of the text, in lower case, and the remedy. The first row applies whose words all occur.
REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("master key",), _MASTER_KEY),
    (("session key",), _MASTER_KEY),
    (("remote service binding",), "on the initiator: run sql/link/remote_service_binding.sql"),
    (("certificate", "accept"), "import the endpoint's certificate there, and grant its owner CONNECT (sql/link)"),
    (
        ("certificate", "not found"),
        "run sql/link/import_endpoint_certificate.sql and import_dialog_certificate.sql there",
    ),
    (("certificate", "expire"), "create the certificate again with a later EXPIRY_DATE, link again"),
    (("certificate", "not yet valid"), "create the certificate again with START_DATE in the past; check the clocks"),
    (("no usable certificate",), "give the user a valid certificate that is active for BEGIN DIALOG (sql/link)"),
    (
        ("certificate",),
        "compare the certificates of both sides by thumbprint; import them again (sql/link/import_*.sql)",
    ),
    (("handshake failed", "encrypt"), "give both endpoints the same ENCRYPTION"),
    (
        ("handshake failed",),
        "check the other endpoint's certificate, its copy here and CONNECT on the endpoint (sql/link)",
    ),
    (("no route matches",), "run sql/link/route.sql there"),
    (("lack of routing information",), "run sql/link/route.sql there"),
    (
        ("could not find the target broker",),
        "no route names the target's broker instance: run sql/link/route.sql there",
    ),
    (("broker configuration service",), "drop the route to SQL/ServiceBroker/BrokerConfiguration"),
    (("transport protocol is not available",), "start this instance's endpoint: ALTER ENDPOINT ... STATE = STARTED;"),
    (("refused",), "start the other instance's endpoint, and compare its port with the route's address"),
    (("dns",), _HOST),
    (("no such host",), _HOST),
    (("address", "invalid"), _ADDRESS),
    (("address", "not valid"), _ADDRESS),
    (("connection attempt failed",), _PORT),
    (("timed out",), _PORT),
    (
        ("closed by the remote host",),
        "the other side refuses this endpoint: see its error log and CONNECT on its endpoint",
    ),
    (("unable to connect",), _PORT),
    (("disabled in the sender's database",), _ENABLE_BROKER),
    (("broker is disabled",), _ENABLE_BROKER),
    (("message forwarding",), "the route leads to an instance that is not the target: ALTER ROUTE ... WITH ADDRESS"),
    (("service broker", "disabled"), _ENABLE_BROKER),
    (("target service name could not be found",), _NO_SERVICE),
    (("no such service",), _NO_SERVICE),
    (("guid",), _BROKER_INSTANCE),
    (("broker instance",), _BROKER_INSTANCE),
    (("read-only",), "ALTER DATABASE ... SET READ_WRITE"),
    (("single-user",), _MULTI_USER),
    (("single user",), _MULTI_USER),
    (("msdb",), "bring msdb online and enable its broker"),
    (("server principal",), "ALTER AUTHORIZATION ON DATABASE::... TO [sa]; activation and delivery run as the owner"),
    (("permission",), _GRANT_SEND),
    (("access", "denied"), _GRANT_SEND),
    (("queue", "disabled"), "ALTER QUEUE ... WITH STATUS = ON"),
    (("queue", "busy"), "the target's queue is busy: wait for its readers, or raise MAX_QUEUE_READERS"),
)
SILENT = (
    "the other side drops messages that it cannot verify without an answer: compare its copy of the dialog certificate "
    "by thumbprint, watch the event Broker:Message Undeliverable there, and check the route back"
)


def remedy_for(text: str) -> str:
    """Return the remedy for a transmission status or an error's description."""
    lower = text.lower()
    if not lower.strip():
        return SILENT
    for words, remedy in REMEDIES:
        if all(word in lower for word in words):
            return remedy
    return "search the error logs of both instances for this text"
