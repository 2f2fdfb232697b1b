"""The kinds of labs: what each can do, the words for its numbers, and its default times. No other module names a lab.

Whoever must know what a lab can do asks its kind: `lab.kind.can.has_page_latches`, `lab.kind.words.origin`. A new
question is a new field here, and `make lint` finds whoever compares a lab with a name. How a lab is opened is the
business of `harness.lab` and `harness.simulation`, which take the kinds below as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# SERVERPROPERTY('Edition') of the servers of this repository, whoever started them.
EMBEDDED_EDITION = "Embedded Service Broker"
PROBE_COMMITS = 100  # as many as a 99th percentile needs


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a lab can do, and what its numbers are worth."""

    is_measurement: bool  # its numbers are SQL Server's
    virtual_time: bool = False  # its clock is a model's: no machine decides its numbers
    has_page_latches: bool = True  # the 150 trick can pay
    has_data_files: bool = True  # files have sizes, and queues and dialogs lie on their pages
    has_extended_events: bool = True
    holds_all_versions: bool = False  # instances of several versions can be open at a time
    instances_are_children: bool = False  # of the harness's process, which may end them


@dataclass(frozen=True, kw_only=True)
class LabWords:
    """What is said of a lab and its numbers."""

    nature: str  # what its instances are
    origin: str  # above every figure: whose numbers these are
    footer: str  # below every figure
    versions: str = "versions"
    cannot_gain: str = ""  # why the 150 trick cannot pay on it


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds that a lab takes beside settling and measuring, and how much of the longest settling it takes.

    The defaults are cautious: on SQL Server nothing of this has been measured yet.
    """

    cell_s: float = 1.0
    window_s: float = 0.0  # to which shorter windows grow on average, until the rate is known
    drain_s: float = 2.0
    settled_part: float = 1.0  # how far a cell gets from the shortest to the longest settling, on average
    group_s: float = 10.0
    dialogs_begun_per_s: float = 2000.0
    dialogs_warmed_per_s: float = 2000.0
    version_s: float = 60.0
    is_measured: bool = False


@dataclass(frozen=True, kw_only=True)
class LabKind:
    """A kind of lab."""

    name: str  # in options and results
    can: Capabilities
    words: LabWords
    # The longest settling, the measured window and the longest draining in seconds, by what is run.
    times: Mapping[str, Mapping[str, float]]
    costs: Costs = Costs()
    probe_commits: int = PROBE_COMMITS  # how many single commits the doctor times

    @property
    def is_model(self) -> bool:
        """Whether its numbers are computed, not measured."""
        return self.can.virtual_time

    def warms_up_all(self, choice: str | None) -> bool:
        """Whether dialogs that no cell uses are warmed up too: as in the paper, unless that costs time for nothing."""
        as_in_the_paper = self.can.has_page_latches and not self.is_model
        return as_in_the_paper if choice is None else choice == "all"

    @property
    def whose_numbers(self) -> str:
        """What a page says of the numbers that it shows."""
        if self.can.is_measurement:
            return self.words.nature
        return f"{self.name.capitalize()} lab, not SQL Server: {self.words.nature}"


# A load that needs all sixteen queue readers of the paper has them after 75 s, because one is added every five seconds;
# they must then stay for ten.
_SQL_SERVER_TIMES = {"measure": 30.0, "settle": 90.0, "drain": 120.0}


def _sql_server(nature: str) -> LabKind:
    return LabKind(
        name="sqlserver",
        can=Capabilities(is_measurement=True),
        words=LabWords(
            nature=nature,
            origin="SQL Server {versions}",
            footer="sqlserver lab: SQL Server itself, measured by this harness",
        ),
        times={"matrix": _SQL_SERVER_TIMES, "rates": _SQL_SERVER_TIMES},
    )


CONTAINERS = _sql_server("SQL Server in containers on this machine")
SERVERS = _sql_server("SQL Server on your own servers")
EMBEDDED = LabKind(
    name="embedded",
    can=Capabilities(
        is_measurement=False,
        has_page_latches=False,
        has_data_files=False,
        has_extended_events=False,
        holds_all_versions=True,
        instances_are_children=True,
    ),
    words=LabWords(
        nature="this repository's small servers on this machine; their numbers are not SQL Server's",
        origin="Embedded lab, not SQL Server (it imitates {versions})",
        footer="embedded lab: this harness's own Service Broker, clients and instances on one machine. "
        "Not SQL Server: it says nothing about SQL Server's speed",
        versions="imitated versions",
        cannot_gain="The embedded lab has no page latches, so the 150 trick cannot pay on it.",
    ),
    times={
        "matrix": {"measure": 1.0, "settle": 2.5, "drain": 60.0},
        # Long enough for a 99th percentile at a tenth of the rate.
        "rates": {"measure": 5.0, "settle": 1.0, "drain": 60.0},
    },
    # Measured on two processors; the journal of a sweep has the times of your machine.
    costs=Costs(
        cell_s=0.9,
        window_s=3.3,
        drain_s=0.2,
        settled_part=0.45,
        group_s=1.5,
        dialogs_begun_per_s=10_000.0,
        dialogs_warmed_per_s=1200.0,
        version_s=0.5,
        is_measured=True,
    ),
    probe_commits=10,  # the time says nothing of SQL Server
)
SIMULATED = LabKind(
    name="simulated",
    can=Capabilities(is_measurement=False, virtual_time=True, holds_all_versions=True),
    words=LabWords(
        nature="a model of hardware in virtual time; its numbers are not SQL Server's and measure nothing",
        origin="A model, not SQL Server (simulated lab; it models {versions})",
        footer="simulated lab: a model, this harness's own Service Broker in virtual time on modelled hardware. "
        "Not SQL Server, and not a measurement",
        versions="modelled versions",
    ),
    # From 0.2 s on its rates are those of later, to 2 %. The window grows where it says too little about the rate
    # (`run.steadiness`).
    times={"matrix": {"measure": 0.4, "settle": 0.2}, "rates": {"measure": 5.0, "settle": 0.5}},
)

# The first of a name speaks for all that have it.
KINDS = (CONTAINERS, SERVERS, EMBEDDED, SIMULATED)
NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS))
SERVER_NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS if not kind.can.virtual_time))


def named(name: str) -> LabKind:
    """Return the kind of lab that results call so; of a name that only another version of the harness knows, a kind
    whose numbers are not SQL Server's."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    origin = f"{name[:1].upper()}{name[1:]} lab, versions {{versions}}"
    words = LabWords(nature="", origin=origin, footer=f"{name} lab")
    return LabKind(name=name, can=Capabilities(is_measurement=False), words=words, times={})


def times(run: str) -> dict[str, Mapping[str, float]]:
    """Return the default times of a run, such as `matrix`, by the lab's name."""
    return {kind.name: kind.times[run] for kind in KINDS}
