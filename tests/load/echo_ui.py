"""Locust's web interface with an echo server instead of a lab: `python -m tests.load.echo_ui PORT LOGS`.

The number of threads asks for trouble: 41 has no lab, 42 no login, 43 a server that fails every call. The page shows
LOOKS at instances that nobody has.
"""

import sys
import time
from pathlib import Path

from harness.definitions.lab_kinds import SERVERS
from harness.definitions.load_model import OpenLoop
from harness.lab.instances import LabError
from harness.load import ui
from harness.load.locust_clients import LocustClients
from harness.load.messages import Looked, ServePage, WebScenario
from harness.load.plan import SEND_MESSAGE, CellPlan, Sending
from tests.load import echo_server

LOOKS = [
    Looked(
        time.time() + second,
        {
            "depth": {"target's queue": 100 * second, "initiators' transmission queues": 7},
            "rate": {"sent": 1000 + second, "processed": 900},
            "readers": {"queue readers": 5},
            "target_waits": {"WRITELOG": 250.5} | ({"PAGELATCH_EX": 40} if second == 3 else {}),
            "initiator_latches": {"sys.sysdesend": 12.5, "queue dbo.MySSBLabTestQueue": 0.25},
        },
        {"target MySSBLabTestQueue": "NOTIFIED" if second < 3 else "RECEIVES_OCCURRING"},
        ["initiator-1: connection refused"] if second in (2, 5) else [],
    )
    for second in range(1, 6)
]


class EchoStage:
    def __init__(self, server: echo_server.EchoServer) -> None:
        self._server = server

    def make_ready(self, scenario: WebScenario, run: int, tell: ui.Tell) -> CellPlan:
        tell("looking for the echo ...")
        if scenario.threads == 41:
            raise LabError("no echo in this valley")
        database = {42: "Refuse", 43: "FailAll"}.get(scenario.threads, "Echo")
        strings = [self._server.connection_string(database)] * scenario.initiators
        sending = Sending(SEND_MESSAGE, [echo_server.handles(scenario.threads)] * scenario.initiators)
        rate = scenario.rate_per_s
        open_loop = None if rate is None else OpenLoop(rate, "constant", 1)
        return ui.plan_of(scenario, run, "2008", strings, sending, open_loop)

    def check(self) -> None:
        assert self._server.process.poll() is None


def main(port: int, logs: Path) -> None:
    page = ServePage(port, SERVERS.name, "echo", "Echo, not SQL Server: it only answers", 5)
    with echo_server.running() as server, LocustClients(log_directory=logs, page=page) as clients:
        clients.launch(1)
        for look in LOOKS:
            clients.tell_master(look)
        ui.Player(EchoStage(server), clients).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
