"""The pages of sys.sysdesend on which the dialogs of a pool lie, read once for each pool.

The paper asserts that using every 150th handle puts each dialog's row of sys.sysdesend on a page of its own. Only the
dedicated administrator connection shows that table. An instance has one such connection: it is opened for this query.
"""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

from harness.definitions.units import counted
from harness.files import records
from harness.lab import scripts
from harness.lab.instances import Instance, connections

_LOCATION = struct.Struct("<IHH")  # page, file, slot


class DialogPage(NamedTuple):
    """The place of one dialog's row in sys.sysdesend."""

    dialog_id: int  # its number in the order in which the dialogs were begun, from 1
    file_id: int
    page_id: int
    slot: int
    handle_rank: int  # rank of its handle among all rows, from 0
    handle: str


Spread = Mapping[str, Sequence[DialogPage]]  # by instance


def located(instance: Instance) -> list[DialogPage]:
    """Return all dialogs of an initiator's pool, by id.

    Raises LabError if the connection is refused, ScriptError if it does not show the table.
    """
    with closing(instance.connect_admin()) as connection:
        return [_dialog_page(row) for row in scripts.rows(connection, "observe/dialog_page_locations.sql", {})]


def _dialog_page(row: Mapping[str, Any]) -> DialogPage:
    page_id, file_id, slot = _LOCATION.unpack(row["location"])
    return DialogPage(int(row["dialog_id"]), file_id, page_id, slot, int(row["handle_rank"]), str(row["handle"]))


def estimate(instance: Instance, dialog_ratio: int, threads: int) -> str:
    """Say on how many pages the used dialogs of an initiator should lie, for a login that may not look.

    Raises LabError or ScriptError.
    """
    variables = {"DialogRatio": str(dialog_ratio), "LastDialog": str(dialog_ratio * threads)}
    with closing(instance.connect()) as connection:
        (row,) = scripts.rows(connection, "observe/dialog_pages.sql", variables)
    return (
        f"{instance.name}: {counted(row['dialogs'], 'used dialog')} should lie on {counted(row['pages'], 'page')} of "
        f"sys.sysdesend, at most {row['dialogs_per_page_max']} on one page: an estimate from the order of their handles"
    )


def at_target(target: Instance, initiators: Sequence[Instance], dialog_ratio: int, threads: int) -> str:
    """Say on how many pages of the target's sys.sysdercv the used dialogs lie.

    Raises LabError if the connection is refused, ScriptError if it does not show the table.
    """
    variables = {"DialogRatio": str(dialog_ratio), "LastDialog": str(dialog_ratio * threads)}
    with connections(initiators) as opened:
        conversations = {
            row["conversation_id"]
            for connection in opened
            for row in scripts.rows(connection, "observe/used_conversations.sql", variables)
        }
    with closing(target.connect_admin()) as connection:
        rows = scripts.rows(connection, "observe/received_dialog_locations.sql", {})
    pages = Counter(row["location"][:6] for row in rows if row["conversation_id"] in conversations)
    return (
        f"{counted(pages.total(), 'used dialog')} lie on {counted(len(pages), 'page')} of the target's sys.sysdercv, "
        f"at most {max(pages.values(), default=0)} on one page"
    )


def used(spread: Spread, dialog_ratio: int, threads: int) -> Spread:
    """Choose the dialogs that cells of this ratio and number of threads use."""
    last = dialog_ratio * threads
    return {
        name: [page for page in pages if page.dialog_id <= last and page.dialog_id % dialog_ratio == 0]
        for name, pages in spread.items()
    }


def columns(spread: Spread) -> dict[str, list[Any]]:
    """Return the columns of the record `dialog_pages`."""
    return records.columns("dialog_pages", [(name, *page) for name, pages in spread.items() for page in pages])


def summary(spread: Spread) -> str:
    """Summarise the pages of used dialogs in one line."""
    dialogs = [page for pages in spread.values() for page in pages]
    shared = [Counter((page.file_id, page.page_id) for page in pages) for pages in spread.values()]
    different = sum(len(counts) for counts in shared)
    most = max((count for counts in shared for count in counts.values()), default=0)
    noun = "page" if different == 1 else "pages"
    sequential = all(is_sequential(pages) for pages in spread.values())
    return (
        f"{len(dialogs)} used dialogs lie on {different} {noun} of sys.sysdesend, at most {most} on one page; "
        f"conversation handles are {'' if sequential else 'NOT '}sequential"
    )


def is_sequential(pages: Sequence[DialogPage]) -> bool:
    """Return whether handles ascend in the order in which the dialogs were begun."""
    return all(page.handle_rank < next_.handle_rank for page, next_ in pairwise(pages))
