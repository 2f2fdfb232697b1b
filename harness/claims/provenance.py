"""How the model of the paper's hardware obtained its number for each claim.

* *fitted*: `harness calibrate` chose the model's parameters to produce this number or a closely related one. Four of
  the five numbers that it fits are the paper's. The fifth, the gain at 3×10 threads, is ours: the paper says
  "noticeable" and gives no number.
* *by construction*: the number follows from what was written into the model. Dialogs lie in handle order on pages of
  144 rows, only pages of sys.sysdesend are latched, the three initiators are alike, so are the versions, and the
  target logs what it stores.
* *predicted*: everything else. Only these numbers test the model.
"""

from __future__ import annotations

FITTED = frozenset(
    {
        "peak_3_initiators",
        "peak_concluded",
        "gain_max",
        "gain_noticeable_from_30",
        "initiator_processors",
        "target_processors",
    }
)
BY_CONSTRUCTION = frozenset(
    {
        "matrix_complete",
        "versions_alike",
        "messages_on_disk",
        "contention_on_sysdesend",
        "sysdercv_no_bottleneck",
        "hot_page_without_trick",
        "page_of_its_own_with_trick",
        "trick_removes_contention",
        "initiators_alike",
    }
)


def provenance(claim: str) -> str:
    """Return `fitted`, `by construction` or `predicted` for a claim's key."""
    if claim in FITTED:
        return "fitted"
    return "by construction" if claim in BY_CONSTRUCTION else "predicted"
