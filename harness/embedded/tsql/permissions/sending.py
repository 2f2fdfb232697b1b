"""Dialogs with a service of the same instance, without dialog security.

The message is enqueued as the user who owns the initiating service, impersonated in its database: "the security
principal that owns the initiating service must have SEND permission on the target service", also in one database. In
another database this user is nobody unless its own is TRUSTWORTHY. A message that is refused waits in the transmission
queue.
"""

from harness.embedded.broker.database import ConversationEndpoint, Local
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.permissions.guard import Catalog

STATE = 3  # of the error inside 28005


def problem(catalog: Catalog, endpoint: ConversationEndpoint, destination: Local) -> str:
    """Why the dialog may not reach the service, as transmission_status shows it; empty if it may."""
    source, target = endpoint.database, destination.database
    if endpoint.terms.is_encrypted and source.catalog.binding_for(endpoint.terms.far_service) is not None:
        return ""  # the user of the remote service binding is who sends
    sender = guard.of_user(catalog, source, endpoint.service.owner)
    service = destination.service
    try:
        sender.enter(target)
        if not sender.allows(target, "SERVICE", service.service_id, "SEND"):
            raise SqlServerError(8494, service.name)
    except SqlServerError as error:
        return SqlServerError(28005, error.number, STATE, error.text).text
    return ""
