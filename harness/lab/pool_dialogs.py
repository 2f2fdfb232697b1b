"""End the dialogs of a pool one by one, in databases that other conversations live in too.

A lab's own database gets a new broker instead (`link.remove_conversations`), which ends all conversations at once. In a
database that existed before, only conversations that the lab has begun are ended: those of `dbo.dialogs` on the
initiators, and their other sides at the target, which have the same conversation ids.
"""

from collections.abc import Sequence

from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance

Side = tuple[Instance, "Connection"]

_IDS_AT_ONCE = 500


def end(target: Side | None, initiators: Sequence[Side]) -> None:
    """End the pools of the initiators where a database existed before; None is a target that has nothing of them."""
    existing_target = target if target is not None and target[0].is_existing else None
    for instance, connection in initiators:
        if existing_target is None and not instance.is_existing:
            continue
        database = {"Database": instance.database}
        rows = scripts.rows(connection, "reset/dialog_ids.sql", database) if existing_target is not None else []
        ids = [f"'{row['conversation_id']}'" for row in rows]
        # The target first, because the ids are known only as long as the dialogs are; and again, because a message that
        # was under way begins the conversation anew.
        _end_at_target(existing_target, ids)
        scripts.run(connection, "reset/dialogs.sql", database)
        _end_at_target(existing_target, ids)


def _end_at_target(target: Side | None, ids: Sequence[str]) -> None:
    for first in range(0, len(ids), _IDS_AT_ONCE):
        assert target is not None
        some = ", ".join(ids[first : first + _IDS_AT_ONCE])
        variables = {"Database": target[0].database, "ConversationIds": some}
        scripts.run(target[1], "reset/conversations.sql", variables)
