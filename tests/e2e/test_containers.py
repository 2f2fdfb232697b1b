"""Containers as a user meets them: up, a cell, status, down; over the stand-in for Docker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stand_ins import docker_engine

pytestmark = pytest.mark.process

PASSWORD = "Stand-1n-for-d0cker"
CELL = "i1-t2-r150-p100-v2022"


def test_containers_start_run_a_cell_keep_running_and_are_removed(tmp_path: Path) -> None:
    with docker_engine.running() as docker:
        given = {"ACCEPT_EULA": "Y", "MSSQL_SA_PASSWORD": PASSWORD}
        environment = {**os.environ, **docker.environment, **given}

        def harness(*words: str) -> str:
            line = [sys.executable, "-m", "harness", *words]
            ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
            assert ended.returncode == 0, ended.stderr
            assert PASSWORD not in ended.stdout + ended.stderr
            return ended.stdout

        said = harness("lab", "up", "--initiators", "1", "--server-version", "2022")
        assert "pulling mcr.microsoft.com/mssql/server:2022-latest" in said
        before = {process.pid for process in docker.containers()}
        times = ("--measure", "500ms", "--settle", "300ms")
        said = harness("run", CELL, *times, "--results", str(tmp_path))
        assert said.startswith(
            "lab: sqlserver (the default where a Docker engine answers; version 2022, whose containers run)"
        )
        assert "each processed once and in order" in said
        [manifest] = tmp_path.glob("*-sqlserver/manifest.json")
        recorded = json.loads(manifest.read_text())
        assert recorded["settings"]["lab"] == "sqlserver"
        assert "/var/lib/docker" in recorded["placement"]["2022"]["shared"]["disk"]
        assert recorded["placement"]["2022"]["proxied"] == ""
        assert [one["fingerprint"]["log_storage"]["filesystem"] for one in recorded["instances"]] == ["xfs", "xfs"]
        assert [
            one["instance"]
            for one in recorded["findings"]["2022"]
            if one["text"].startswith("a commit waits until its log is flushed to the device with fdatasync")
        ] == ["target", "initiator-1"]
        assert all(PASSWORD.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert {process.pid for process in docker.containers()} == before
        assert harness("lab", "status").count("running, healthy, 127.0.0.1,") == 2
        assert "removed initiator1, target" in harness("lab", "down")
        assert docker.containers() == []
