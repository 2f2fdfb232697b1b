"""One client thread against the echo server."""

import itertools
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.files.records import calls_file, write_calls
from harness.files.workload_file import Client
from harness.load import threads
from harness.load.plan import SEND_MESSAGE
from harness.load.threads import CALLS_PER_CHUNK, CallLog, CellRun, ClientThread, SharedTransaction, ThreadState, Turns
from tests.load import echo_server

pytestmark = pytest.mark.process

HANDLE = echo_server.handles(1)[0]


def wait_for(thread, *states, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while thread.state not in states:
        assert time.monotonic() < deadline, thread.state
        time.sleep(0.001)
    return thread.state


@pytest.fixture
def thread():
    thread = ClientThread()
    yield thread
    thread.retire()


def a_run(echo, database="Echo", **changes):
    plan = {"initiator": 1, "run": 1, "payload_bytes": 100} | changes
    return CellRun(connection_string=echo.connection_string(database), **plan)


def drive(thread, run, calls, number=1):
    """Until so many calls have returned, or the thread ends by itself."""
    thread.prepare(run, number, HANDLE)
    assert wait_for(thread, ThreadState.READY, ThreadState.UNPREPARED) is ThreadState.READY, thread.reason
    thread.start()
    while thread.log.count < calls and thread.state is ThreadState.RUNNING:
        time.sleep(0.001)
    run.stopping = True
    return wait_for(thread, ThreadState.FINISHED, ThreadState.GAVE_UP)


@pytest.mark.parametrize("size", [100, 1024, 4096, 8192])
def test_it_sends_from_the_barrier_to_the_stop_and_numbers_its_messages(echo_by_driver, thread, size):
    run = a_run(echo_by_driver, run=size, payload_bytes=size)
    assert drive(thread, run, 50, number=7) is ThreadState.FINISHED
    received = echo_by_driver.received()[f"{size}/1/7"]
    assert (received["messages"], received["misordered"]) == (thread.log.count, 0)
    # Behind the body lie at most the end of a varbinary(max).
    assert size <= received["bytes"] / received["messages"] <= size + 8


def test_every_call_has_its_start_and_latency(echo, thread):
    before = time.perf_counter_ns()
    drive(thread, a_run(echo), CALLS_PER_CHUNK + 10)
    starts, latencies = thread.log.starts_ns(), thread.log.latencies_ns()
    assert len(starts) == len(latencies) == thread.log.count > CALLS_PER_CHUNK
    assert starts[0] > before
    assert latencies.min() > 0
    assert (starts[1:] >= starts[:-1] + latencies[:-1]).all()


def test_a_thread_waits_its_think_time_after_every_call(echo, thread):
    client = SEND_MESSAGE.model_copy(update={"think_time": 0.02})
    drive(thread, a_run(echo, client=client), 5)
    starts, latencies = thread.log.starts_ns(), thread.log.latencies_ns()
    assert (starts[1:] >= starts[:-1] + latencies[:-1] + 20_000_000).all()


def test_a_stop_ends_a_think_time(echo, thread):
    client = SEND_MESSAGE.model_copy(update={"think_time": 3600.0})
    assert drive(thread, a_run(echo, client=client), 1) is ThreadState.FINISHED


def sharing(calls: int) -> Client:
    return SEND_MESSAGE.model_copy(update={"messages_per_transaction": calls})


def test_calls_that_share_a_transaction_are_committed_by_the_last_of_them_or_at_the_end():
    statements = []
    transaction = SharedTransaction(lambda text, *arguments: statements.append(text), 3)
    for _ in range(7):
        transaction.execute("call", [HANDLE, b"body"])
    assert transaction.uncommitted == 1
    transaction.commit()
    transaction.commit()
    whole = [threads.BEGIN, *3 * ["call"], threads.COMMIT]
    assert statements == [*whole, *whole, threads.BEGIN, "call", threads.COMMIT]


def test_a_thread_whose_calls_share_transactions_sends_each_message_once(echo_by_driver, thread):
    run = a_run(echo_by_driver, run=4711, client=sharing(4))
    assert drive(thread, run, 50, number=7) is ThreadState.FINISHED
    received = echo_by_driver.received()["4711/1/7"]
    assert (received["messages"], received["misordered"]) == (thread.log.count, 0)
    assert thread.log.failures == []


def test_a_failed_call_takes_the_messages_of_its_transaction_with_it(echo, thread):
    assert drive(thread, a_run(echo, "Fail5", client=sharing(3)), 50) is ThreadState.FINISHED
    numbers = [sequence for sequence, _ in thread.log.failures]
    # Calls 0 to 2 are committed; 4 fails, and with it 3.
    assert numbers[:4] == [3, 4, 8, 9]
    assert len({text for _, text in thread.log.failures}) == 1


def test_a_thread_gives_up_after_ten_failed_transactions_in_a_row(echo, thread):
    assert drive(thread, a_run(echo, "Fail3", client=sharing(3)), 1000) is ThreadState.GAVE_UP
    assert thread.log.count == len(thread.log.failures) == 3 * threads.FAILURES_IN_A_ROW_MAX


def test_a_thread_passes_the_parameters_of_its_workload(echo, thread):
    client = Client(
        procedure="dbo.SendMessage",
        parameters=("thread", "broker_instance", "initiator", "Region", "body"),
        values={"Region": "north"},
    )
    run = a_run(echo, client=client)
    thread.prepare(run, 7, HANDLE)
    assert wait_for(thread, ThreadState.READY, ThreadState.UNPREPARED) is ThreadState.READY, thread.reason
    assert [str(value) for value in thread._arguments[:4]] == ["7", HANDLE, "1", "north"]


def test_a_direct_rpc_calls_the_procedure_by_name_with_either_driver(echo_by_driver, thread):
    assert drive(thread, a_run(echo_by_driver, run=41, client=Client(direct_rpc=True)), 20) is ThreadState.FINISHED
    received = echo_by_driver.received()["41/1/1"]
    assert (received["messages"], received["misordered"]) == (thread.log.count, 0)
    assert received["by_name"] == thread.log.count


def test_a_failed_call_is_counted_with_the_servers_text_and_sending_goes_on(echo, thread):
    assert drive(thread, a_run(echo, "Fail3"), 30) is ThreadState.FINISHED
    numbers = [sequence for sequence, _ in thread.log.failures]
    assert numbers == list(range(2, thread.log.count, 3))
    assert "The service queue is currently disabled" in thread.log.failures[0][1]


def test_it_gives_up_after_ten_failures_in_a_row(echo, thread):
    assert drive(thread, a_run(echo, "FailAll"), 1000) is ThreadState.GAVE_UP
    assert thread.log.count == len(thread.log.failures) == threads.FAILURES_IN_A_ROW_MAX
    assert thread.reason.startswith("gave up after 10 failed calls in a row: [42000]")


def test_a_thread_that_cannot_be_prepared_says_why(echo, thread):
    thread.prepare(a_run(echo, "Refuse"), 1, HANDLE)
    assert wait_for(thread, ThreadState.READY, ThreadState.UNPREPARED) is ThreadState.UNPREPARED
    assert "Login failed for user 'sa'" in thread.reason


def test_a_parked_thread_keeps_its_connection_and_starts_an_empty_log(echo, thread):
    drive(thread, a_run(echo), 10)
    connection = thread._connection
    thread.park()
    assert drive(thread, a_run(echo), 5) is ThreadState.FINISHED
    assert thread._connection is connection
    assert thread.log.count < 10_000_000
    assert thread.log.starts_ns()[0] > 0


def test_a_thread_whose_connection_was_closed_between_cells_opens_a_new_one(echo, thread):
    drive(thread, a_run(echo), 10)
    thread._connection.close()
    assert drive(thread, a_run(echo), 10) is ThreadState.FINISHED


def test_parking_a_running_thread_stops_it(echo, thread):
    thread.prepare(run := a_run(echo), 1, HANDLE)
    wait_for(thread, ThreadState.READY)
    thread.start()
    thread.park()
    assert run.stopping
    assert drive(thread, a_run(echo), 10) is ThreadState.FINISHED


@pytest.mark.parametrize(
    "first, last",
    [
        (0, 0),
        (0, 1),
        (5, 5),
        (CALLS_PER_CHUNK - 1, CALLS_PER_CHUNK + 1),
        (0, 2 * CALLS_PER_CHUNK),
        (10, 3 * CALLS_PER_CHUNK),
    ],
)
def test_a_log_reads_back_across_its_chunks(first, last):
    log = CallLog()
    while len(log.latencies) < 3:
        log.latencies.append(threads._chunk())
    for number in range(3 * CALLS_PER_CHUNK):
        log.latencies[number // CALLS_PER_CHUNK][number % CALLS_PER_CHUNK] = number
    log.count = 3 * CALLS_PER_CHUNK
    assert np.array_equal(log.latencies_ns(first, last), np.arange(first, last))


def test_the_recorder_writes_a_row_a_call(echo, tmp_path):
    cell = Cell.parse("i1-t2-r150-p100-v2008")
    pair = [ClientThread(), ClientThread()]
    for number, (thread, database) in enumerate(zip(pair, ["Echo", "Fail3"], strict=True), start=1):
        drive(thread, a_run(echo, database), 30, number=number)
        thread.retire()
    file = calls_file(pair, visit=Visit(cell), attempt=2, initiator=3, clock_offset_ns=10)
    path = write_calls(tmp_path, Visit(cell), 2, "i3", [file[:100], file[100:]])
    assert path.name == "i1-t2-r150-p100-v2008-b1-a2-i3.parquet"
    rows = pq.read_table(path).to_pandas()
    assert len(rows) == sum(thread.log.count for thread in pair)
    for thread in pair:
        own = rows[rows.thread == thread.number]
        assert list(own.sequence) == list(range(thread.log.count))
        assert list(own.started_at_ns) == list(thread.log.starts_ns() + 10)
        assert list(own.latency_ns) == list(thread.log.latencies_ns())
        assert list(own.sequence[~own.succeeded]) == [sequence for sequence, _ in thread.log.failures]
    assert set(rows.initiator) == {3}


def test_the_recorder_writes_a_file_even_where_nothing_was_sent(tmp_path):
    cell = Cell.parse("i1-t1-r1-p100-v2008")
    file = calls_file([ClientThread()], visit=Visit(cell), attempt=1, initiator=1, clock_offset_ns=0)
    assert pq.read_table(write_calls(tmp_path, Visit(cell), 1, "i1", [file])).num_rows == 0


def test_in_the_open_loop_threads_share_the_schedule_and_latency_counts_from_it(echo, thread):
    gap_ns = 20_000_000
    other = ClientThread()
    turns = Turns(number * gap_ns for number in itertools.count())
    run = a_run(echo, turns=turns)
    try:
        for number, one in enumerate((thread, other), start=1):
            one.prepare(run, number, HANDLE)
            assert wait_for(one, ThreadState.READY, ThreadState.UNPREPARED) is ThreadState.READY, one.reason
        turns.began_ns = time.perf_counter_ns()
        for one in (thread, other):
            one.start()
        while thread.log.count + other.log.count < 6:
            time.sleep(0.001)
        run.stopping = True
        for one in (thread, other):
            assert wait_for(one, ThreadState.FINISHED, ThreadState.GAVE_UP) is ThreadState.FINISHED
    finally:
        other.retire()
    logs = [thread.log, other.log]
    intended = np.concatenate([log.intended_ns() for log in logs])
    assert sorted(intended) == [turns.began_ns + number * gap_ns for number in range(len(intended))]
    for log in logs:
        lateness = log.starts_ns() - log.intended_ns()
        assert (lateness >= 0).all()
        assert (log.latencies_ns() > lateness).all()


def test_a_thread_that_waits_for_its_turn_stops(echo, thread):
    turns = Turns(iter([0, 3600 * 10**9]))
    run = a_run(echo, turns=turns)
    thread.prepare(run, 1, HANDLE)
    wait_for(thread, ThreadState.READY)
    turns.began_ns = time.perf_counter_ns()
    thread.start()
    while not thread.log.count:
        time.sleep(0.001)
    run.stopping = True
    assert wait_for(thread, ThreadState.FINISHED) is ThreadState.FINISHED
    assert thread.log.count == 1
