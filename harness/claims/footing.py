"""What a number of the model of the paper's hardware rests on, before anybody calls it a result.

* *fitted*: `harness calibrate` chose the model's parameters so that this number comes out, or one beside it: four are
  the paper's, the gain at 3×10 threads is ours, for the paper has a word for it and no number.
* *by construction*: follows from what was written into the model. Its dialogs lie in handle order on pages of 144 rows,
  it latches no pages but those of sys.sysdesend, its three initiators are alike and so are its versions, and its target
  logs what it stores.
* *predicted*: everything else. These alone say something of the model.
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


def footing(claim: str) -> str:
    """Of the model of the paper's hardware: `fitted`, `by construction` or `predicted`."""
    if claim in FITTED:
        return "fitted"
    return "by construction" if claim in BY_CONSTRUCTION else "predicted"
