"""A soak: one cell again and again, what drifts, and a restart of the target that loses no message."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from harness.files.journal import read
from tests.commands import harness as command
from tests.stand_ins.own_servers import OwnServers, running_servers

pytestmark = pytest.mark.process
CELL = "i1-t2-r1-p100-v2022"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnServers]:
    with running_servers(tmp_path / "servers") as servers:
        own = OwnServers(tmp_path, servers)
        own.lab_file()
        yield own


@pytest.mark.spark
def test_a_restart_of_the_target_in_the_middle_loses_no_message(own: OwnServers, warm_jvm: dict[str, str]) -> None:
    target, _ = own.servers
    times = "--for 1s --measure 300ms --settle 200ms --rate 100/s"
    words = ("soak", CELL, *times.split(), "--lab-file", "lab.toml")
    jvm = {name: value for name, value in warm_jvm.items() if name.startswith("PYSPARK")}
    with own.begin(*words, "--restart-target", **jvm) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if line.startswith("restart target (127.0.0.1"):
                target.stop()
                target.start()
        assert process.wait() == 0, printed
    output = "".join(printed)
    assert "is back; " in output and "wait for it in transmission queues" in output
    [results] = own.folder.glob("results/*")
    done = list(read(results / "journal.jsonl"))
    assert [(entry.block, entry.outcome) for entry in done] == [(block, "completed") for block in (1, 2, 3)]
    cells = pd.read_parquet(results / "reduced" / "cells.parquet")
    assert (cells.sent_messages == cells.processed_messages).all()
    assert (
        f"each of {cells.processed_messages.sum():,} messages was processed once and in order"
        in output.splitlines()[-1]
    )
    assert (results / "figures" / "soak.png").stat().st_size
    sizes = pd.read_csv(results / "queue-sizes.csv")
    assert set(sizes.instance) == {"target", "initiator-1"} and (sizes.conversations == 2).all()
    assert own.harness("lab", "clean", "--lab-file", "lab.toml", "--yes").code == 0


def test_a_restart_needs_servers_that_a_user_can_restart(tmp_path: Path) -> None:
    refused = command(tmp_path, "soak", "i1-t2-r1-p100-v2008", "--lab", "embedded", "--restart-target")
    assert refused.code == 2 and "nobody can restart the embedded lab's instances" in refused.line
    assert not (tmp_path / "results").exists()
    assert "--for: invalid duration" in command(tmp_path, "soak", CELL, "--for", "long").line
