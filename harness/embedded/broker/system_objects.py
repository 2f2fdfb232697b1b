"""System objects of every database: message types, contracts, services and queues, by their real names.

Names use `http` as in sys.service_message_types, not `https` as in the manual's current pages: names are compared byte
by byte.
"""

import html

BROKER = "http://schemas.microsoft.com/SQL/ServiceBroker"
NOTIFICATIONS = "http://schemas.microsoft.com/SQL/Notifications"

ERROR = f"{BROKER}/Error"
END_DIALOG = f"{BROKER}/EndDialog"
DIALOG_TIMER = f"{BROKER}/DialogTimer"
EVENT_NOTIFICATION = f"{NOTIFICATIONS}/EventNotification"
POST_EVENT_NOTIFICATION = f"{NOTIFICATIONS}/PostEventNotification"
EVENT_NOTIFICATION_SERVICE = f"{NOTIFICATIONS}/EventNotificationService"
BROKER_SERVICE = f"{BROKER}/ServiceBroker"  # the broker's own service in every database
CONFIGURATION_NOTICE = f"{BROKER}/BrokerConfigurationNotice"
MISSING_ROUTE = f"{CONFIGURATION_NOTICE}/MissingRoute"
MISSING_BINDING = f"{CONFIGURATION_NOTICE}/MissingRemoteServiceBinding"
DEFAULT = "DEFAULT"
ENDS = (END_DIALOG, ERROR)  # the last message of one side of a conversation

FIRST_USER_ID = 65536

# id, name, validation
MESSAGE_TYPES: tuple[tuple[int, str, str], ...] = (
    (1, ERROR, "X"),
    (2, END_DIALOG, "E"),
    (3, f"{NOTIFICATIONS}/QueryNotification", "X"),
    (4, EVENT_NOTIFICATION, "X"),
    (5, DIALOG_TIMER, "E"),
    (6, MISSING_ROUTE, "X"),
    (7, f"{CONFIGURATION_NOTICE}/FailedRoute", "X"),
    (8, MISSING_BINDING, "X"),
    (9, f"{CONFIGURATION_NOTICE}/FailedRemoteServiceBinding", "X"),
    (10, f"{BROKER}/ServiceEcho/Echo", "N"),
    (11, f"{BROKER}/ServiceDiagnostic/Query", "X"),
    (12, f"{BROKER}/ServiceDiagnostic/Status", "X"),
    (13, f"{BROKER}/ServiceDiagnostic/Description", "N"),
    (14, DEFAULT, "N"),
)

# id, name, ((message type, SENT BY), ...)
CONTRACTS: tuple[tuple[int, str, tuple[tuple[str, str], ...]], ...] = (
    (1, f"{NOTIFICATIONS}/PostQueryNotification", ((f"{NOTIFICATIONS}/QueryNotification", "INITIATOR"),)),
    (2, POST_EVENT_NOTIFICATION, ((EVENT_NOTIFICATION, "INITIATOR"),)),
    (
        3,
        CONFIGURATION_NOTICE,
        tuple((name, "INITIATOR") for identifier, name, _ in MESSAGE_TYPES if identifier in {6, 7, 8, 9}),
    ),
    (
        4,
        f"{BROKER}/ServiceDiagnostic",
        (
            (f"{BROKER}/ServiceDiagnostic/Query", "INITIATOR"),
            (f"{BROKER}/ServiceDiagnostic/Status", "TARGET"),
            (f"{BROKER}/ServiceDiagnostic/Description", "TARGET"),
        ),
    ),
    (5, f"{BROKER}/ServiceEcho", ((f"{BROKER}/ServiceEcho/Echo", "ANY"),)),
    (6, DEFAULT, ((DEFAULT, "ANY"),)),
)

# object_id, name
QUEUES: tuple[tuple[int, str], ...] = (
    (1977058079, "QueryNotificationErrorsQueue"),
    (2009058193, "EventNotificationErrorsQueue"),
    (2041058307, "ServiceBrokerQueue"),
)

# id, name, queue, contracts
SERVICES: tuple[tuple[int, str, str, tuple[str, ...]], ...] = (
    (1, f"{NOTIFICATIONS}/QueryNotificationService", "QueryNotificationErrorsQueue", (CONTRACTS[0][1],)),
    (2, EVENT_NOTIFICATION_SERVICE, "EventNotificationErrorsQueue", (POST_EVENT_NOTIFICATION,)),
    (3, BROKER_SERVICE, "ServiceBrokerQueue", (CONTRACTS[3][1], CONTRACTS[4][1])),
)

AUTO_CREATED_LOCAL = "AutoCreatedLocal"


def error_body(code: int, description: str) -> bytes:
    """Make the body of an Error message: XML as nvarchar with a byte order mark."""
    text = (
        f'\ufeff<?xml version="1.0"?><Error xmlns="{ERROR}"><Code>{code}</Code>'
        f"<Description>{html.escape(description, quote=False)}</Description></Error>"
    )
    return text.encode("utf-16-le")
