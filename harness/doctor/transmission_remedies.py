"""What Service Broker says of a message that does not get through, and what to do about it.

`sys.transmission_queue.transmission_status` and the Error messages of a dialog hold texts without numbers; they are
recognised by words of theirs ("Database engine events and errors", 8000-9999 and 28000-28999).
"""

from __future__ import annotations

# Words of the text (in lower case, all of them) -> what to do. The first that fits.
REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("master key",), "the sender's database: run sql/link/master_key.sql; the server must open the key by itself"),
    (("session key",), "the sender's database: run sql/link/master_key.sql; the server must open the key by itself"),
    (("remote service binding",), "on the initiator: run sql/link/remote_service_binding.sql"),
    (("certificate", "accept"), "import the endpoint's certificate there, and grant its owner CONNECT (sql/link)"),
    (
        ("certificate", "not found"),
        "run sql/link/import_endpoint_certificate.sql and import_dialog_certificate.sql there",
    ),
    (("certificate", "expire"), "make the certificate anew with a later EXPIRY_DATE, link anew"),
    (("certificate", "not yet valid"), "make the certificate anew with START_DATE in the past; look at the clocks"),
    (("no usable certificate",), "give the user a valid certificate that is active for BEGIN DIALOG (sql/link)"),
    (
        ("certificate",),
        "compare the certificates of both sides by thumbprint; import them anew (sql/link/import_*.sql)",
    ),
    (("handshake failed", "encrypt"), "give both endpoints the same ENCRYPTION"),
    (
        ("handshake failed",),
        "look at the other endpoint's certificate, its copy here and CONNECT on the endpoint (sql/link)",
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
    (("dns",), "the host in the route's address is not known here: see broker_host in lab.toml"),
    (("no such host",), "the host in the route's address is not known here: see broker_host in lab.toml"),
    (("address", "invalid"), "the route's address is TCP://host:port: ALTER ROUTE ... WITH ADDRESS"),
    (("address", "not valid"), "the route's address is TCP://host:port: ALTER ROUTE ... WITH ADDRESS"),
    (
        ("connection attempt failed",),
        "is the other endpoint's port open between the machines (firewall, published port)?",
    ),
    (("timed out",), "is the other endpoint's port open between the machines (firewall, published port)?"),
    (
        ("closed by the remote host",),
        "the other side refuses this endpoint: see its error log and CONNECT on its endpoint",
    ),
    (("unable to connect",), "is the other endpoint's port open between the machines (firewall, published port)?"),
    (("disabled in the sender's database",), "ALTER DATABASE ... SET ENABLE_BROKER"),
    (("broker is disabled",), "ALTER DATABASE ... SET ENABLE_BROKER"),
    (("message forwarding",), "the route leads to an instance that is not the target: ALTER ROUTE ... WITH ADDRESS"),
    (("service broker", "disabled"), "ALTER DATABASE ... SET ENABLE_BROKER"),
    (("target service name could not be found",), "the route leads to an instance without the service: link anew"),
    (("no such service",), "the route leads to an instance without the service: link anew"),
    (("guid",), "the route names another broker instance: run sql/link/route.sql with the present one"),
    (("broker instance",), "the route names another broker instance: run sql/link/route.sql with the present one"),
    (("read-only",), "ALTER DATABASE ... SET READ_WRITE"),
    (("single-user",), "ALTER DATABASE ... SET MULTI_USER"),
    (("single user",), "ALTER DATABASE ... SET MULTI_USER"),
    (("msdb",), "msdb must be online, with its broker enabled"),
    (("server principal",), "ALTER AUTHORIZATION ON DATABASE::... TO [sa]; activation and delivery run as the owner"),
    (
        ("permission",),
        "GRANT SEND ON SERVICE there to the user who owns this side's certificate (sql/link/grant_send.sql)",
    ),
    (
        ("access", "denied"),
        "GRANT SEND ON SERVICE there to the user who owns this side's certificate (sql/link/grant_send.sql)",
    ),
    (("queue", "disabled"), "ALTER QUEUE ... WITH STATUS = ON"),
    (("queue", "busy"), "the target's queue is busy: wait for its readers, or raise MAX_QUEUE_READERS"),
)
SILENT = (
    "the other side drops in silence what it cannot verify: compare its copy of the dialog certificate by thumbprint, "
    "look at the event Broker:Message Undeliverable there, and at the route back"
)


def remedy_for(text: str) -> str:
    """What to do about a transmission status or an error's description."""
    lower = text.lower()
    if not lower.strip():
        return SILENT
    for words, remedy in REMEDIES:
        if all(word in lower for word in words):
            return remedy
    return "look this text up in SQL Server's error log of both instances"
