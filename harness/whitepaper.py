"""The paper as data: "Service Broker: Performance and Scalability Techniques", Michael Thomassy, March 2009.

Every number that this harness takes from the paper, or draws beside its own, stands here once, with the section it
comes from. The paper prints its results as pictures and states only a few of them in its text; only what the text
states is kept: nothing is read off a picture.

The axes of the paper's test matrix (table 1) are `harness.matrix`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TITLE = "Service Broker: Performance and Scalability Techniques"
PUBLISHED = "March 2009"


@dataclass(frozen=True, slots=True)
class Statement:
    """A number of the paper: its value and unit, the paper's own qualification of it, and the section that has it."""

    value: float
    unit: str
    wording: str
    section: str


# --- Test matrix -----------------------------------------------------------------------------------------------------

PERMUTATIONS = Statement(528, "cells", "528 permutations of unique tests", "Test Matrix")
DIALOGS_MAX_PER_INITIATOR = Statement(7_500, "dialogs", "a maximum of 7,500 dialogs", "Test Matrix")
DIALOGS_MAX_AT_TARGET = Statement(22_500, "dialogs", "22,500 total dialogs", "Test Matrix")

# --- Procedures and configuration ------------------------------------------------------------------------------------

RECEIVE_TOP = 10_000  # "Receive Activation Procedure": up to 10,000 messages for each RECEIVE
RECEIVE_TIMEOUT_MS = 3_000  # "Receiving Multiple Messages per Conversation": waitfor (...), timeout 3000
MESSAGE_DROP_BYTES = 2_000  # the same listing: "Copy 2K bytes of payload to table", cast as varbinary(2000)
MAX_QUEUE_READERS = 16  # "Receive Activation Procedure": two receive tasks per core
ACTIVATION_PERIOD_S = 5  # "Receive Activation Procedure": not a configurable parameter
WARM_UP_BYTES = 50  # "Warm-up System Tables": replicate('x', 50)
BROKER_PORT = 5114  # "Service Broker Endpoint"

# --- The 150 trick ---------------------------------------------------------------------------------------------------

BASE_DIALOG_RATIO = 1  # every dialog of the pool is used
TRICK_DIALOG_RATIO = 150  # every 150th is used: "at most 144 rows per page, so we rounded up to 150"
SYSDESEND_ROW_BYTES = 47 + 7  # row data and row header
SYSDESEND_ROWS_PER_PAGE = 144
PAGE_BYTES = 8_192

# "If more than 15 threads access the sys.sysdesend table in parallel at high-volume, there is page latch contention."
LATCHED_TABLE = "sys.sysdesend"

TRICK_MEMORY_50_DIALOGS = Statement(400, "KB", "50 usable dialogs will require 400 KB of memory", "The 150 Trick")
TRICK_MEMORY_200_DIALOGS = Statement(1.6, "MB", "200 usable dialogs ... amounts to 1.6 MB", "Conclusion")

# --- Results ---------------------------------------------------------------------------------------------------------

# By number of initiators, with the 150 trick; the payload sizes' own values are only in the paper's pictures.
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

# --- Appendix A: hardware --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Computer:
    """One kind of computer of Appendix A."""

    model: str
    count: int
    processors: str
    cores: int
    memory_gb: int
    network: str
    operating_system: str


DATABASE_SERVER = Computer(
    model="Dell PowerEdge 6950",
    count=4,  # three initiators and the target
    processors="4 dual-core AMD, 2.8 GHz",  # the paper prints "4 dual-processors @2.8 MHz"
    cores=8,  # "Database Configuration": one tempdb file a core = 8 data files
    memory_gb=64,
    network="1 NIC, Broadcom NetXtreme II, Gigabit Ethernet; 2 HBAs, 2 Gb/s Fibre Channel",
    operating_system="Windows Server 2003 Enterprise x64 SP2",
)
CLIENT_COMPUTER = Computer(
    model="Dell PowerEdge 1750",
    count=3,
    processors="2 single-core, 3.1 GHz",
    cores=2,
    memory_gb=4,
    network="1 NIC, Broadcom NetXtreme, Gigabit Ethernet",
    operating_system="Windows Server 2003 Enterprise SP2, x86",
)
SERVER_VERSIONS = ("SQL Server 2005 Enterprise SP2", "SQL Server 2008 Enterprise CTP6")
STORAGE = "3PAR S400 SAN, 240 disks of 147 GB at 10,000 rpm, 16 GB data cache; a LUN for data, one for log, RAID 1+0"
