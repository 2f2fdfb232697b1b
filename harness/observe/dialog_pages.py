"""Where the used dialogs lie: asked over the dedicated administrator connection, once for each pool of dialogs.

The paper asserts that every 150th handle in use puts each dialog's row of sys.sysdesend on a page of its own. Only the
administrator sees that table, and there is one such connection an instance: it is opened for this one question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from harness.lab import scripts
from harness.lab.instances import Instance

NAMES = ("instance", "dialog_id", "file_id", "page_id", "slot", "handle_rank", "handle")
_LOCATION = re.compile(r"\((\d+):(\d+):(\d+)\)")


class DialogPage(NamedTuple):
    """The row of sys.sysdesend of one used dialog."""

    dialog_id: int
    file_id: int
    page_id: int
    slot: int
    handle_rank: int  # place of its handle among all rows, from 0
    handle: str


Spread = Mapping[str, Sequence[DialogPage]]  # by instance


def located(instance: Instance) -> list[DialogPage]:
    """Every used dialog of an initiator, by id. LabError where the connection is refused, ScriptError where it does not
    show the table."""
    connection = instance.connect_admin()
    try:
        rows = scripts.rows(connection, "observe/dialog_page_locations.sql", {})
    finally:
        connection.close()
    return [_dialog_page(row) for row in rows]


def _dialog_page(row: Mapping[str, Any]) -> DialogPage:
    found = _LOCATION.search(row["location"])
    if found is None:
        raise scripts.ScriptError(f"observe/dialog_page_locations.sql: {row['location']!r} is no (file:page:slot)")
    file_id, page_id, slot = (int(part) for part in found.groups())
    return DialogPage(int(row["dialog_id"]), file_id, page_id, slot, int(row["handle_rank"]), str(row["handle"]))


def columns(spread: Spread, threads: int) -> dict[str, list[Any]]:
    """The columns of the `dialog_pages` record: the dialogs that a cell of so many threads uses."""
    rows = [(name, *page) for name, found in spread.items() for page in found if page.dialog_id <= threads]
    return {name: [row[place] for row in rows] for place, name in enumerate(NAMES)}


def summary(spread: Spread) -> str:
    """What the pages prove, in one line."""
    dialogs = [page for found in spread.values() for page in found]
    shared = [Counter((page.file_id, page.page_id) for page in found) for found in spread.values()]
    pages = sum(len(counts) for counts in shared)
    most = max((count for counts in shared for count in counts.values()), default=0)
    noun = "page" if pages == 1 else "pages"
    sequential = all(is_sequential(found) for found in spread.values())
    return (
        f"{len(dialogs)} in use lie on {pages} {noun} of sys.sysdesend, at most {most} on one; "
        f"conversation handles are {'' if sequential else 'NOT '}sequential"
    )


def is_sequential(found: Sequence[DialogPage]) -> bool:
    """Whether handles ascend in the order in which the dialogs were begun."""
    return all(one.handle_rank < next_.handle_rank for one, next_ in pairwise(found))
