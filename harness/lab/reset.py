"""Reset a lab: empty its tables between cells, remove all conversations between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.lab import link, scripts
from harness.lab.instances import Instance, Lab, connections, in_parallel

if TYPE_CHECKING:
    import pyodbc


def messages(lab: Lab, target: pyodbc.Connection) -> None:
    """Empty the target's tables. Queues and transmission queues must be empty."""
    scripts.run(target, "reset/messages.sql", {"Database": lab.target.database})


def conversations(lab: Lab) -> None:
    """Remove all conversations on all sides and link the new broker instances.

    This disconnects all sessions in the databases: connections held elsewhere must be opened again. NEW_BROKER removes
    conversations with their messages and session keys. Queues, services, certificates, users and remote service
    bindings remain, and msdb's route AutoCreatedLocal finds any broker instance. Only what names the old broker
    instance is created again: the routes here, the dialogs by `dialog_pool.build`. A queue that was off is turned on.
    """
    with connections(lab.instances, "master") as opened:

        def new_broker(instance: Instance, connection: pyodbc.Connection) -> None:
            scripts.run(connection, "reset/broker.sql", {"Database": instance.database})
            link.turn_queue_on(lab, instance, connection)

        in_parallel(new_broker, lab.instances, opened)
    link.relink(lab)
