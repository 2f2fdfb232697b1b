"""Two instances that `harness.lab.link` has linked: endpoints, certificates, routes, bindings, the transmission queue.

The embedded lab has these tests in `tests.doctor`, with every fault; here one fault shows that they run, and SQL Server
gets all that an initiator can have. What fails there is a text that the doctor does not know, or a rule of the broker.
"""

from collections.abc import Iterator

import pyodbc
import pytest

from harness import doctor
from harness.definitions.matrix import Cell
from harness.doctor import probe
from harness.files.settings import Settings
from harness.lab import embedded_instances, link, statuses
from harness.lab.drivers import choose
from harness.lab.instances import Lab, connections
from tests.conformance import servers
from tests.conformance.servers import ON_SQLSERVER, NoServer
from tests.doctor.conftest import asked, ills
from tests.doctor.test_broken import BREAKAGES, mend, run_on
from tests.doctor.test_probe import CASES
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ON_INITIATOR = [(name, words) for name, words, ill in CASES if ill == ["initiator-1"]]
FAULTS = [
    *(pytest.param("embedded", *case, id=f"embedded-{case[0]}") for case in ON_INITIATOR if case[0] == "no route"),
    *(pytest.param("sqlserver", *case, marks=ON_SQLSERVER.marks, id=f"sqlserver-{case[0]}") for case in ON_INITIATOR),
]
STATE = "SELECT state_desc, is_initiator FROM sys.conversation_endpoints WHERE conversation_id = ?;"


@pytest.fixture(scope="module", params=["embedded", ON_SQLSERVER])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("linked")
    if request.param == "embedded":
        with embedded_instances.running(version="2022", initiators=1, directory=folder, driver=choose()) as lab:
            link.link(lab)
            yield lab
        return
    try:
        with servers.linked(folder) as lab:
            yield lab
    except NoServer as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def sides(lab: Lab) -> Iterator[list[pyodbc.Connection]]:
    """A connection to the target, and one to the initiator, each in its database."""
    with connections(lab.instances) as opened:
        yield opened


def begin(initiator: pyodbc.Connection, lab: Lab) -> tuple[str, str]:
    """Begin a dialog and send a message that the target's procedure stores; return its handle and conversation id."""
    [side] = lab.initiators
    handle = initiator.execute(
        "SET NOCOUNT ON; DECLARE @h uniqueidentifier;"
        f" BEGIN DIALOG @h FROM SERVICE [{side.service}] TO SERVICE N'{lab.target.service}'"
        f" ON CONTRACT [{side.names.contract}] WITH ENCRYPTION = ON;"
        f" SEND ON CONVERSATION @h MESSAGE TYPE [{side.names.message_type}] (0x01); SELECT @h;"
    ).fetchval()
    of_handle = "SELECT conversation_id FROM sys.conversation_endpoints WHERE conversation_handle = ?;"
    return handle, initiator.execute(of_handle, handle).fetchval()


def states(sides: list[pyodbc.Connection], conversation: str) -> list[str]:
    """The states of both ends, the target's first; "" for one that is not there."""
    rows = [side.execute(STATE, conversation).fetchone() for side in sides]
    return ["" if row is None else row.state_desc for row in rows]


def test_a_linked_pair_is_healthy(lab: Lab) -> None:
    findings = doctor.examine(lab, cells=[Cell.parse(f"i1-t1-r1-p100-v{lab.version}")], settings=Settings())
    assert [str(finding) for finding in findings if finding.severity == "error"] == []


def test_a_dialog_between_two_instances_ends_on_both(lab: Lab, sides: list[pyodbc.Connection]) -> None:
    target, initiator = sides
    handle, conversation = begin(initiator, lab)
    wait_until(lambda: states(sides, conversation) == ["CONVERSING", "CONVERSING"])
    wait_until(lambda: initiator.execute("SELECT COUNT(*) FROM sys.transmission_queue;").fetchval() == 0)
    initiator.execute(f"END CONVERSATION '{handle}';")
    wait_until(lambda: states(sides, conversation)[1] == "")  # the target has acknowledged EndDialog
    # A secure dialog stays closed at the target for half an hour, so that no copy of a message is taken for a new one.
    wait_until(lambda: states(sides, conversation)[0] == "CLOSED")
    assert target.execute("SELECT COUNT(*) FROM sys.transmission_queue;").fetchval() == 0


def test_messages_wait_in_the_transmission_queue_until_the_targets_endpoint_starts(
    lab: Lab, sides: list[pyodbc.Connection]
) -> None:
    target, initiator = sides
    target.execute("ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STOPPED;")
    try:
        _, conversation = begin(initiator, lab)
        waiting = "SELECT transmission_status FROM sys.transmission_queue WHERE transmission_status <> N'';"
        status = wait_until(lambda: initiator.execute(waiting).fetchval())
        understood = statuses.understand(status)
        assert understood is not None and "endpoint" in understood.remedy(**statuses.names("", "")), status
        assert states(sides, conversation) == ["", "CONVERSING"]
    finally:
        target.execute("ALTER ENDPOINT Endpoint_SRPerf_1 STATE = STARTED;")
    wait_until(lambda: states(sides, conversation) == ["CONVERSING", "CONVERSING"])


@pytest.mark.parametrize("lab, name, words", FAULTS, indirect=["lab"])
def test_the_doctor_knows_what_a_server_says_of_a_fault(lab: Lab, name: str, words: str) -> None:
    breakage = next(each for each in BREAKAGES if each.name == name)
    run_on(lab, breakage.on, breakage.spoil)
    try:
        findings = probe.there_and_back(lab, asked(lab))
    finally:
        mend(lambda on, text: run_on(lab, on, text), breakage)
    failed = [finding for finding in findings if finding.severity == "error"]
    assert [finding.instance for finding in failed] == ["initiator-1"]
    assert words in failed[0].remedy, str(failed[0])
    assert not [ill for ill in ills(probe.there_and_back(lab, asked(lab))) if ill[0] == "error"]
