"""Where a run's number for a claim comes from: measured, or how the model obtained it.

Calibration chose five parameters of each model of the paper's lab (`simulation/hardware/paper*.toml`) so that it gives
five numbers: the peak of three initiators, the gains at 3×50 and at 3×10 threads, and the processors of initiators and
target. A number that these determine is *fitted*, whether or not it is one of the five. A number that could hardly be
another, because of what was written into the model, holds *by construction*. Neither tests the model: only what is
*predicted* does, and only that is counted. A run that is no model measures all of its numbers.
"""

from enum import StrEnum

from harness.definitions.lab_kinds import named


class Provenance(StrEnum):
    MEASURED = "measured"
    NOWHERE = "–"  # a lab that is no model has no number
    FITTED = "fitted"
    BY_CONSTRUCTION = "by construction"
    PREDICTED = "predicted"


_TOP_WAIT_WITH_TRICK = "initiator_top_wait_with_trick"

# `harness calibrate` fits these to the paper, or they follow from what it fits.
FITTED_TO_THE_PAPER = {
    # The numbers of the fit. The paper has two for the same peak, and none for the gain at 3×10 threads: its 15 % are
    # ours.
    *("peak_3_initiators", "peak_concluded", "gain_max", "initiator_processors", "target_processors"),
    "gain_noticeable_from_30",
    # The initiators are alike and share nothing but the target. The fit gives the target 45 % of its processors with
    # three of them, so it slows none of them: n initiators reach n times as much as one, and two thirds of the peak of
    # three are the 12,000 of two.
    *("linear_1_to_3", "linear_third_initiator", "peak_2_initiators"),
    # The fit leaves half of an initiator's processors idle at 50 threads: a further thread finds one.
    "threads_raise_throughput",
    # For the same reason the target keeps up.
    "initiator_is_bottleneck",
    # Only latches make the difference between the ratios. A gain of 315 % at 3×50 threads needs threads that wait for
    # latches three quarters of their time, and one of 15 % at 3×10 threads leaves little to wait for at fewer.
    *("initiator_top_wait_without_trick", "contention_above_15"),
    # With the trick nobody waits for latches, and the fit leaves half of the processors idle. The latency of the log
    # was fitted to take the rest of each call's time.
    _TOP_WAIT_WITH_TRICK,
}
# There the clients' processors were fitted to take that time, and not the latency of the log.
FITTED_WITH_CLIENTS = FITTED_TO_THE_PAPER - {_TOP_WAIT_WITH_TRICK}

# `harness calibrate --like` fits a model of any other hardware to one initiator's rates with the trick, at 1, 5, 10
# and 50 threads.
FITTED_TO_A_RUN = {"peak_1_initiator", "threads_raise_throughput"}

BY_CONSTRUCTION = {
    "matrix_complete",  # the run's own list of cells
    "versions_alike",  # no parameter depends on the version: they differ in their strings and in the seed
    "initiators_alike",  # three computers with the same parameters, under the same load
    "messages_on_disk",  # the store logs the body of each message that it queues and of each row that it inserts
    # Each KiB costs processor time, log and network, and nothing makes larger messages cheaper.
    "peak_of_small_payloads",
    # Dialogs lie in the order of their handles on pages of 144 rows.
    *("hot_page_without_trick", "page_of_its_own_with_trick"),
    # Only pages of sys.sysdesend are latched, and dialogs that share no page cannot contend for one.
    *("contention_on_sysdesend", "sysdercv_no_bottleneck", "trick_removes_contention"),
    # A SEND writes no page of sys.sysdesend at the target: what is left to wait for there is the log.
    "target_top_wait",
    # Whoever sends holds the lock of the conversation group until the log is flushed: one conversation sends one
    # message a flush, whatever a flush costs.
    "single_conversation",
}

# All others are predicted, among them some that come near to the above:
# * The peak of one initiator. It is a third of the fitted one, so the fit determines it too; but the paper's number is
#   less, and what the fit determines may refute a model, though it cannot support one.
# * No gain at 15 threads or less. The fit bounds it by the gain at 30 threads. That it is below a tenth already at half
#   of them is up to the model of a latch.
# * The other recommendations. The parameters say what each step of the broker costs, mostly as estimates, but not which
#   of them the load waits for. Two of them turn out to be worth nothing in the model.


_FITTED = {"paper": FITTED_TO_THE_PAPER, "paper-clients": FITTED_WITH_CLIENTS}  # by hardware; others are a run's


def provenance(claim: str, *, lab: str, hardware: str) -> Provenance:
    """Return where a lab's number for a claim's key comes from; `hardware` is the name of what was modelled."""
    if not named(lab).is_model:
        return Provenance.MEASURED
    if claim in BY_CONSTRUCTION:
        return Provenance.BY_CONSTRUCTION
    return Provenance.FITTED if claim in _FITTED.get(hardware, FITTED_TO_A_RUN) else Provenance.PREDICTED
