"""The paper as data: "Service Broker: Performance and Scalability Techniques", Michael Thomassy, March 2009.

Every number that this harness takes from the paper, or draws beside its own, is here once, with its section. The paper
prints its results as pictures and states only a few of them in its text; only numbers of the text are here, none is
read off a picture. `CLAIMS` are the statements that a run can check; `harness.claims` does so.

The axes of the paper's test matrix (table 1) are `harness.definitions.matrix`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

TITLE = "Service Broker: Performance and Scalability Techniques"
PUBLISHED = "March 2009"

# --- Tolerances ------------------------------------------------------------------------------------------------------
#
# These turn the paper's words for numbers into bounds.

# "Almost", "as much as": within a tenth of the number; for a gain, of its factor of throughput. The paper's words bound
# its numbers from above; the tenth above is ours: a lab that reaches 12,500 confirms the paper's "almost 12,000".
NEAR = 0.10
# "About 50%" of a processor: within a fifth of the number, since the paper gives it in steps of five points.
ABOUT = 0.20
# "Almost linear scale increase": n initiators reach n times as much as one, within a fifth either way.
NEAR_LINEAR = 0.80
# "Noticeable", "beneficial", "increased", "more", "impacted": a change of a tenth. Cells of a second repeat to a few
# percent.
NOTICEABLE = 0.10
# "Comparable": the geometric mean of the cells' ratios differs from 1 by no more than a tenth.
COMPARABLE = 0.10
# "Begin to plateau": the first number of threads from which on a line stays above nine tenths of its highest rate. A
# neighbour in the matrix of the stated number is accepted: 3x10 and 3x20 beside 3x15.
PLATEAU = 0.90
PLATEAU_FROM, PLATEAU_TO = 30, 60
LARGE_PAYLOAD_BYTES = 4_096  # "larger message sizes": the upper two of the matrix' four
# "Low contention" against contention, "much less", "most of the waiting": at most half of the other.
MUCH = 2.0
# "Processes many messages (up to 10,000) in one transaction": ten or more on average, a thousandth of the maximum.
MANY = 10.0
# "Removes the latch contention": at most a tenth remains.
REMOVED = 0.10
# "Always": in 95 of 100 cells, since a cell of a second can coincide with a pause of the machine.
ALWAYS = 0.95


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that a run can check: it holds where the run's number lies in [holds_from, holds_to].

    `wording` is the paper's number, or its word for it; `published` its number, if it has one; `unit` is the unit of
    the run's number and of the bounds.
    """

    key: str
    statement: str
    section: str
    wording: str
    unit: str
    published: float | None = None
    holds_from: float = -math.inf
    holds_to: float = math.inf

    def includes(self, value: float) -> bool:
        """Whether a number lies within the bounds; the bounds themselves count, whatever floats round them to."""
        low, high = self.holds_from, self.holds_to
        return (value >= low or math.isclose(value, low)) and (value <= high or math.isclose(value, high))


@dataclass(frozen=True, slots=True)
class Statement:
    """A number of the paper: value, unit, the paper's own wording, and its section. Words without a number have NaN."""

    value: float
    unit: str
    wording: str
    section: str

    def claim(self, key: str, statement: str, holds_from: float = -math.inf, holds_to: float = math.inf) -> Claim:
        published = None if math.isnan(self.value) else self.value
        return Claim(key, statement, self.section, self.wording, self.unit, published, holds_from, holds_to)

    def near(self, key: str, statement: str, tolerance: float = NEAR) -> Claim:
        """Claim that the run's number is the paper's, within the tolerance either way."""
        return self.claim(key, statement, self.value * (1 - tolerance), self.value * (1 + tolerance))


def _words(unit: str, wording: str, section: str) -> Statement:
    return Statement(math.nan, unit, wording, section)


def _slower(key: str, statement: str, section: str) -> Claim:
    """A claim that what the paper advises against costs throughput: the advised way is faster by this factor."""
    return _words("times", "slower", section).claim(key, statement, 1 + NOTICEABLE)


# --- Test matrix -----------------------------------------------------------------------------------------------------

# Of 2005 and 2008 together: a run of other versions, or of one, is complete with half of it for each version.
PERMUTATIONS = Statement(528, "cells", "528 permutations of unique tests", "Test Matrix")
PERMUTATIONS_A_VERSION = PERMUTATIONS.value / 2

# --- Procedures and configuration ------------------------------------------------------------------------------------

RECEIVE_TOP = 10_000  # "Receive Activation Procedure": up to 10,000 messages for each RECEIVE
RECEIVE_TIMEOUT_MS = 3_000  # "Receiving Multiple Messages per Conversation": waitfor (...), timeout 3000
# Appendix A: "4 dual-processors", "1 file/core = 8 data files". Sends meet on a page only while they run at the same
# time. On fewer schedulers fewer of them do than in the paper: the trick gains less, for a reason that is not its own.
INITIATOR_SCHEDULERS = 8
MESSAGE_DROP_BYTES = 2_000  # the same listing: "Copy 2K bytes of payload to table", cast as varbinary(2000)
MAX_QUEUE_READERS = 16  # "Receive Activation Procedure": two receive tasks per core
ACTIVATION_PERIOD_S = 5  # "Receive Activation Procedure": not a configurable parameter
WARM_UP_BYTES = 50  # "Warm-up System Tables": replicate('x', 50)
BROKER_PORT = 5114  # "Service Broker Endpoint"

# --- The 150 trick ---------------------------------------------------------------------------------------------------

BASE_DIALOG_RATIO = 1  # every dialog of the pool is used
TRICK_DIALOG_RATIO = 150  # every 150th is used: "at most 144 rows per page, so we rounded up to 150"
SYSDESEND_ROWS_PER_PAGE = 144

# "If more than 15 threads access the sys.sysdesend table in parallel at high-volume, there is page latch contention."
LATCHED_TABLE = "sys.sysdesend"

# --- Results ---------------------------------------------------------------------------------------------------------

# By number of initiators, with the 150 trick. Only the paper's pictures have values by payload size.
PEAK_THROUGHPUT: Mapping[int, Statement] = {
    1: Statement(5_000, "messages/s", "almost 5,000", "Service Broker Throughput (figure 2)"),
    2: Statement(12_000, "messages/s", "almost 12,000", "Two Initiators and One Target (figure 3)"),
    3: Statement(18_000, "messages/s", "over 18,000", "Three Initiators and One Target (figure 4)"),
}
PEAK_THROUGHPUT_AS_CONCLUDED = Statement(19_000, "messages/s", "almost 19,000", "Conclusion")
# "Note that the larger message sizes begin to plateau at 45 (3x15) concurrent threads."
PLATEAU_OF_LARGE_PAYLOADS = Statement(
    45, "total threads", "begin to plateau at 45 (3x15)", "Three Initiators and One Target"
)

GAIN_MAX_PERCENT = Statement(315, "%", "as much as a 315 percent increase", "1 Dialog vs. 150 Dialogs (figure 5)")
NO_GAIN_UP_TO = Statement(15, "total threads", "not beneficial at 15 threads or less", "1 Dialog vs. 150 Dialogs")
GAIN_NOTICEABLE_FROM = Statement(30, "total threads", "noticeable at 30 (3x10) or greater", "1 Dialog vs. 150 Dialogs")

INITIATOR_PROCESSOR_PERCENT = Statement(50, "%", "about 50%", "Initiator and Target Server Performance")
TARGET_PROCESSOR_PERCENT = Statement(45, "%", "45% with three initiators", "Initiator and Target Server Performance")

# The top wait by (role, dialog ratio): "Initiator and Target Server Performance".
TOP_WAIT: Mapping[tuple[str, int], str] = {
    ("initiator", BASE_DIALOG_RATIO): "PAGELATCH_EX/SH",
    ("initiator", TRICK_DIALOG_RATIO): "WRITELOG",
    ("target", TRICK_DIALOG_RATIO): "WRITELOG",
}

# --- Claims ----------------------------------------------------------------------------------------------------------

_TEST_RESULTS = "Initiator and Target Server Performance"
_TRICK = "The 150 Trick"
_COMPARISON = "1 Dialog vs. 150 Dialogs (figure 5)"
_GAIN_FACTOR = 1 + GAIN_MAX_PERCENT.value / 100
_MORE_THAN_HALF = 100 * MUCH / (1 + MUCH)  # percent of a whole whose other part is 1/MUCH of this one
_THREE_INITIATORS = PEAK_THROUGHPUT[3].section

CLAIMS: tuple[Claim, ...] = (
    # Throughput
    Statement(PERMUTATIONS_A_VERSION, "cells a version", PERMUTATIONS.wording, PERMUTATIONS.section).near(
        "matrix_complete", "The matrix has 528 unique tests, 264 on each of two versions", tolerance=0
    ),
    PEAK_THROUGHPUT[1].near("peak_1_initiator", "One initiator reaches almost 5,000 messages/s with the 150 trick"),
    PEAK_THROUGHPUT[2].near("peak_2_initiators", "Two initiators reach almost 12,000 messages/s"),
    PEAK_THROUGHPUT[3].claim(
        "peak_3_initiators", "Three initiators reach over 18,000 messages/s", PEAK_THROUGHPUT[3].value
    ),
    PEAK_THROUGHPUT_AS_CONCLUDED.near("peak_concluded", "One target takes almost 19,000 messages/s"),
    Statement(3, "times", "almost linear", _THREE_INITIATORS).claim(
        "linear_1_to_3",
        "Throughput grows almost linearly from one initiator to three",
        3 * NEAR_LINEAR,
        3 / NEAR_LINEAR,
    ),
    Statement(1.5, "times", "almost linear", _THREE_INITIATORS).claim(
        "linear_third_initiator",
        "The third initiator adds almost as much as each of the first two",
        1.5 * NEAR_LINEAR,
        1.5 / NEAR_LINEAR,
    ),
    _words("times", "increased", PEAK_THROUGHPUT[1].section).claim(
        "threads_raise_throughput", "More threads on one initiator raise its throughput, at each step up to 50", 1
    ),
    _words("times", "affected performance", "Test Matrix").claim(
        "payload_matters", "Larger payloads cost throughput: 8K against 100 bytes", 0, 1 - NOTICEABLE
    ),
    _words("times", "with smaller-size messages", _THREE_INITIATORS).claim(
        "peak_of_small_payloads", "The peak is one of the smaller payloads", 1
    ),
    PLATEAU_OF_LARGE_PAYLOADS.claim(
        "plateau_of_large_payloads", "Larger payloads begin to level off at 3×15 threads", PLATEAU_FROM, PLATEAU_TO
    ),
    _words("times", "the larger message sizes", _THREE_INITIATORS).claim(
        "plateau_before_small_payloads",
        "Smaller payloads level off at more threads than larger ones, if at all",
        1 + NOTICEABLE,
    ),
    Statement(1, "times", "comparable", "Test Matrix").claim(
        "versions_alike", "2005 and 2008 are alike, cell by cell", 1 - COMPARABLE, 1 / (1 - COMPARABLE)
    ),
    _words("times", "all of the messages", "Conclusion").claim(
        "messages_on_disk",
        "The target writes all of the messages to disk: bytes logged for each byte that it queues and stores",
        1,
    ),
    # The 150 trick
    GAIN_MAX_PERCENT.claim(
        "gain_max",
        "The 150 trick gains as much as 315 % above 15 threads",
        100 * (_GAIN_FACTOR * (1 - NEAR) - 1),
        100 * (_GAIN_FACTOR * (1 + NEAR) - 1),
    ),
    _words("%", NO_GAIN_UP_TO.wording, NO_GAIN_UP_TO.section).claim(
        "no_gain_up_to_15",
        "The 150 trick gains nothing at 15 threads or less, judged with three initiators",
        holds_to=100 * NOTICEABLE,
    ),
    _words("%", GAIN_NOTICEABLE_FROM.wording, GAIN_NOTICEABLE_FROM.section).claim(
        "gain_noticeable_from_30", "The gain is noticeable at 30 threads and more", 100 * NOTICEABLE
    ),
    _words("%", "low contention; contention above 15 threads", _COMPARISON).claim(
        "contention_above_15",
        "Page latches are contended above 15 threads, hardly at 15 or less, where every dialog is used",
        _MORE_THAN_HALF,
    ),
    _words("%", LATCHED_TABLE, _COMPARISON).claim(
        "contention_on_sysdesend",
        "The contended pages of initiators are those of sys.sysdesend, where every dialog is used",
        50,
    ),
    _words("%", "not a concern", _TRICK).claim(
        "sysdercv_no_bottleneck",
        "sys.sysdercv is of no concern: its pages are not where tasks wait",
        holds_to=100 * REMOVED,
    ),
    _words("%", "removes", "Recommendations").claim(
        "trick_removes_contention",
        "Using every 150th dialog removes the contention for page latches",
        holds_to=100 * REMOVED,
    ),
    _words("%", "page hot-spot", "Recommendations").claim(
        "hot_page_without_trick", "Where every dialog is used, used dialogs share pages of sys.sysdesend", 100 * ALWAYS
    ),
    Statement(1, "dialogs", "at most 144 rows per page, so 150", _TRICK).near(
        "page_of_its_own_with_trick",
        "With every 150th, no two used dialogs lie on one page: each costs one, 8 KB",
        tolerance=0,
    ),
    # Initiators and target
    _words("points ahead", TOP_WAIT["initiator", BASE_DIALOG_RATIO], _TEST_RESULTS).claim(
        "initiator_top_wait_without_trick", "Initiators wait longest for PAGELATCH_EX/SH without the trick", 0
    ),
    _words("points ahead", TOP_WAIT["initiator", TRICK_DIALOG_RATIO], _TEST_RESULTS).claim(
        "initiator_top_wait_with_trick", "Initiators wait longest for WRITELOG with the trick", 0
    ),
    _words("points ahead", TOP_WAIT["target", TRICK_DIALOG_RATIO], _TEST_RESULTS).claim(
        "target_top_wait", "The target waits longest for WRITELOG", 0
    ),
    _words("%", "much less on Target", _TRICK).claim(
        "initiator_waits_more",
        "Page latch and log waits of an initiator are much longer than the target's",
        _MORE_THAN_HALF,
    ),
    _words("%", "always", _TRICK).claim(
        "initiator_is_bottleneck",
        "The initiators are always the bottleneck, never the target: cells with a target that keeps up",
        100 * ALWAYS,
    ),
    _words("times", "more transactions", _TRICK).claim(
        "initiator_transactions",
        "The initiator does more transactions than the target for each message",
        1 + NOTICEABLE,
    ),
    _words("messages", "many messages (up to 10,000)", _TRICK).claim(
        "receive_takes_many", "A RECEIVE of the target takes many messages in one transaction", MANY
    ),
    INITIATOR_PROCESSOR_PERCENT.near("initiator_processors", "Initiators use about 50 % of their processors", ABOUT),
    TARGET_PROCESSOR_PERCENT.near("target_processors", "The target of three uses 45 % of its processors", ABOUT),
    _words("%", "the same", _TEST_RESULTS).claim(
        "initiators_alike", "The three initiators carry the same load: least against most busy", 100 * (1 - COMPARABLE)
    ),
    # Techniques
    _slower("single_conversation", "One conversation for all messages is slower than many", "Many Conversations"),
    _slower(
        "dialog_per_message",
        "One message a conversation is slower than many messages on each",
        "Sending Multiple Messages per Conversation",
    ),
    _slower(
        "receive_top_1",
        "RECEIVE TOP (1) is slower than RECEIVE TOP (N)",
        "Receiving Multiple Messages per Conversation",
    ),
    _slower(
        "short_activation_life", "Activated tasks that end at once are slower than those that stay", "Recommendations"
    ),
    _slower("few_readers", "Fewer queue readers than one a core are slower than one to two a core", "Recommendations"),
    _slower("warm_up_needed", "Conversations that are not warmed up are slower", "Warm-up System Tables"),
    _words("times", "increase", "Recommendations").claim(
        "techniques_build_up", "Each technique builds on its predecessor to increase performance", 1 + NOTICEABLE
    ),
)
