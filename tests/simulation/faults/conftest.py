"""A linked lab, which every test forks."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness.simulation import forks, parameters
from harness.simulation.faults import fault_plan, fault_scenario
from harness.simulation.faults.checkers import Evidence
from harness.simulation.faults.fault_plan import Fault, Plan, PlannedClient, Receiver
from harness.simulation.faults.fault_scenario import PreparedLab, ScenarioRun, SeedOutcome
from harness.simulation.network import LinkFaults


@dataclass
class Story:
    """The result of a plan and the state of the world at its end."""

    outcome: SeedOutcome
    evidence: Evidence
    starts: dict[str, int]  # of instances
    dropped: int  # frames that the target had already
    error_log: list[str]  # of the target
    sent_again: int
    links_are_whole: bool


CLIENTS = tuple(PlannedClient(1, thread, 12, 0.8, 100, False) for thread in (1, 2))
RECEIVER = Receiver(is_the_labs=False, top=3, hold_s=0.05, readers=2)


@pytest.fixture(scope="session")
def prepared() -> PreparedLab:
    return fault_scenario.prepare(parameters.read("paper"))


@pytest.fixture
def carry_out(prepared: PreparedLab) -> Callable[..., Story]:
    """Run a plan, or one made of these faults, in a fork of the lab, after calling `meddle` there."""

    def carry_out(
        *faults: Fault,
        clients: tuple[PlannedClient, ...] = CLIENTS,
        receiver: Receiver = RECEIVER,
        meddle: Callable[[], None] = lambda: None,
        whole: Plan | None = None,
    ) -> Story:
        def tell() -> Story:
            meddle()
            run = ScenarioRun(prepared, whole or fault_plan.Plan(1, clients, receiver, faults))
            outcome = run.outcome()
            servers, network = prepared.lab.world.servers, prepared.lab.world.network
            target = servers["target"].engine
            keys = [(one.instance, one.start, one.conversation, one.sequence) for one in run.evidence.sent]
            return Story(
                outcome,
                run.evidence,
                {name: server.starts for name, server in servers.items()},
                target.counters.dropped,
                list(target.error_log.lines),
                len(keys) - len(set(keys)),
                all(network.link(one, other).faults == LinkFaults() for one in servers for other in servers),
            )

        return forks.in_fork(tell)

    return carry_out
