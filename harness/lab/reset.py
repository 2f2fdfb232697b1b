"""Back to a clean lab: empty tables between cells, no conversation at all between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.lab import link, scripts
from harness.lab.instances import Instance, Lab, connections, in_parallel

if TYPE_CHECKING:
    import pyodbc


def messages(lab: Lab, target: pyodbc.Connection) -> None:
    """Empties the target's tables. Queues and transmission queues must be empty."""
    scripts.run(target, "reset/messages.sql", {"Database": lab.target.database})


def conversations(lab: Lab) -> None:
    """Ends every conversation on every side and links the new broker instances. Disconnects all sessions in the
    databases: connections held elsewhere have to be opened again.

    NEW_BROKER takes conversations, their messages and their session keys; queues, services, certificates, users and
    remote service bindings stay, and msdb's route AutoCreatedLocal finds any broker instance. Only what names the old
    one is made anew: the routes here, the dialogs by `dialogs.build`. A queue stays OFF if it was: it is turned on.
    """
    with connections(lab.instances, "master") as opened:

        def new_broker(instance: Instance, connection: pyodbc.Connection) -> None:
            scripts.run(connection, "reset/broker.sql", {"Database": instance.database})
            link.turn_queue_on(lab, instance, connection)

        in_parallel(new_broker, lab.instances, opened)
    link.relink(lab)
