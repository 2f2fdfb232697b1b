"""Claims on the servers, on tables of a few rows."""

import pandas as pd
import pytest

from tests.claims.tables import cells, missing, value


def test_the_bottleneck_is_counted_in_cells():
    table = cells(*((1, threads, 1, 100, "2005", 100.0) for threads in (1, 2, 3, 4)))
    table.loc[0, "state"] = "saturated"
    assert value("initiator_is_bottleneck", cells=table) == 75
    table.loc[1:2, "state"] = ["starved", "unsettled"]
    assert value("initiator_is_bottleneck", cells=table) == 50


@pytest.mark.parametrize("role", ["initiator", "target"])
def test_processor_use_is_that_of_the_most_threads(role):
    few, many = ((3, threads, 150, 100, "2005", 1000.0) for threads in (10, 40))
    used = {"initiator_processor_percent": [20.0, 50.0], "target_processor_percent": [20.0, 50.0]}
    assert value(f"{role}_processors", cells=cells(few, many).assign(**used)) == 50
    assert "30 or more threads" in missing(f"{role}_processors", cells=cells(few, few).assign(**used))


def test_logged_bytes_of_initiators_and_target_are_compared():
    table = cells((3, 50, 150, 100, "2005", 1000.0), (3, 50, 150, 8192, "2005", 100.0))
    rows = [
        (cell.cell_id, instance, database, "LOG", 3, bytes_written)
        for cell in table.itertuples()
        for instance, database, bytes_written in (
            ("target", "SSBTarget", 400_000),
            ("target", "tempdb", 10**9),
            ("initiator-1", "SSBInitiator1", 80),
            ("initiator-2", "SSBInitiator2", 100),
            ("initiator-3", "SSBInitiator3", 90),
        )
    ]
    names = ["cell_id", "instance", "database_name", "file_type", "initiators", "bytes_written"]
    files = pd.DataFrame(rows, columns=names).assign(block=1)
    assert value("initiators_alike", cells=table, file_io=files) == pytest.approx(80)
    idle = files.assign(bytes_written=files.bytes_written.where(files.instance != "initiator-2", 0))
    assert value("initiators_alike", cells=table, file_io=idle) == 0
    # 1,000 messages of 100 bytes, and 100 of 8,192 bytes, of which 2,000 each are stored.
    once = (1000 * (100 + 100), 100 * (8192 + 2000))
    expected = (400_000 / once[0] * 400_000 / once[1]) ** 0.5
    assert value("messages_on_disk", cells=table, file_io=files) == pytest.approx(expected)


def test_transactions_are_compared_where_the_instances_count_them():
    def rows(counter, initiator, target):
        sides = {"initiator-1": initiator, "target": target}
        return [(1, 50, 150, side, counter, number) for side, number in sides.items()]

    columns = ["initiators", "threads", "dialog_ratio", "instance", "counter", "change_per_s"]
    counted = [
        *rows("Databases\\Write Transactions/sec\\SSBTarget", 300.0, 100.0),
        *rows("Databases\\Transactions/sec\\SSBTarget", 1.0, 9.0),
        *rows("Broker Statistics\\SQL SENDs/sec", 1.0, 0.0),
    ]
    table = pd.DataFrame(counted, columns=columns).assign(block=1, cell_id="1-50")
    assert value("initiator_transactions", counters=table) == pytest.approx(3)
    single = table.assign(change_per_s=None)  # one sample in the window: no change is known
    assert "database files were not observed" in missing("initiator_transactions", counters=single)


def test_transactions_are_compared_by_the_log_writes_of_one_initiator_and_its_target_where_nobody_counts_them():
    rows = [
        (1, 50, 150, "initiator-1", "SSBInitiator1", 300),
        (1, 50, 150, "target", "SSBTarget", 200),
        (1, 50, 150, "target", "tempdb", 999),
        (1, 5, 150, "initiator-1", "SSBInitiator1", 900),
        (1, 5, 150, "target", "SSBTarget", 1),
        (3, 50, 150, "initiator-2", "SSBInitiator2", 900),
    ]
    files = pd.DataFrame(
        rows, columns=["initiators", "threads", "dialog_ratio", "instance", "database_name", "writes"]
    ).assign(file_type="LOG", block=1)
    files["cell_id"] = files.initiators.astype(str) + "-" + files.threads.astype(str)
    assert value("initiator_transactions", file_io=files) == pytest.approx(1.5)
    assert "not observed" in missing("initiator_transactions", file_io=files[files.threads == 5])
    unwritten = files.assign(writes=files.writes.where(files.instance != "target", 0))
    assert "no cell has log writes of both" in missing("initiator_transactions", file_io=unwritten)
