"""docker-compose.yml, .env and the command docker."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.definitions.matrix import INITIATORS_MAX
from harness.files import lab_file
from harness.lab import compose, containers, passwords
from tests.stand_ins import docker_engine

FILE = compose.ROOT / "docker-compose.yml"
GIVEN = {"ACCEPT_EULA": "Y", "MSSQL_SA_PASSWORD": "never-on-a-command-line-1A"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without .env, and an environment without the lab's variables."""
    shutil.copy(FILE, tmp_path)
    monkeypatch.setattr(compose, "ROOT", tmp_path)
    for name in [name for name in os.environ if name.startswith("MSSQL_") or name == "ACCEPT_EULA"]:
        monkeypatch.delenv(name)
    return tmp_path


# -- docker-compose.yml ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plugin() -> None:
    try:
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False, timeout=120)
    except FileNotFoundError:
        pytest.skip("the command docker is not installed")
    if found.returncode:
        pytest.skip("docker has no Compose plugin")


def config(*words: str, **given: str) -> subprocess.CompletedProcess[str]:
    """The file as Compose reads it; this needs no engine."""
    line = ["docker", "compose", "--file", str(FILE), "--env-file", "/dev/null", *words]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **given}
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=environment)


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("version", containers.VERSIONS)
def test_compose_accepts_the_file_for_every_version(version):
    found = config("--profile", "3", "config", MSSQL_VERSION=version, **GIVEN)
    assert (found.returncode, found.stderr) == (0, "")
    services = yaml.safe_load(found.stdout)["services"]
    assert sorted(services) == ["initiator1", "initiator2", "initiator3", "target", "volumes"]
    assert {one["image"] for one in services.values()} == {f"mcr.microsoft.com/mssql/server:{version}-latest"}


@pytest.mark.process
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("missing", GIVEN)
def test_compose_says_what_is_missing_and_how_to_give_it(missing):
    found = config("--profile", "1", "config", **{name: value for name, value in GIVEN.items() if name != missing})
    assert found.returncode != 0
    assert missing in found.stderr
    assert ("licence terms" in found.stderr) == (missing == "ACCEPT_EULA")


def definitions() -> dict[str, Any]:
    found: dict[str, Any] = docker_engine.project(compose.ROOT, FILE, GIVEN)
    return found


def instances() -> dict[str, Any]:
    return {name: one for name, one in definitions()["services"].items() if name not in {"harness", "volumes"}}


def test_the_lab_file_of_the_image_names_instances_of_the_file_and_their_brokers_port():
    lab = lab_file.read(FILE.parent / ".ci" / "containers.toml")
    assert [server.host for server in lab.servers] == ["target", "initiator1"]
    for server in lab.servers:
        assert instances()[server.host]["expose"] == [str(server.broker_port)]


def test_the_image_decides_on_the_edition_unless_one_is_given():
    assert "MSSQL_PID" not in definitions()["services"]["target"]["environment"]
    with_edition = docker_engine.project(compose.ROOT, FILE, GIVEN | {"MSSQL_PID": "Express"})["services"]["target"]
    assert with_edition["environment"]["MSSQL_PID"] == "Express"


def test_only_the_loopback_interface_publishes_ports_and_the_brokers_port_is_not_published():
    for name, service in instances().items():
        published = [port.split(":") for port in service["ports"]]
        assert {host for host, _, _ in published} == {"127.0.0.1"}, name
        assert sorted(inner for _, _, inner in published) == ["1433", "1434"]
        assert service["expose"] == ["5114"]


def test_every_instance_has_its_own_volumes_for_data_and_log():
    mounted = [volume.split(":") for service in instances().values() for volume in service["volumes"]]
    assert set(Counter(volume for volume, _ in mounted).values()) == {1}
    assert Counter(path for _, path in mounted) == {"/var/opt/mssql": 17, "/var/opt/mssql-log": 17}
    assert {volume for volume, _ in mounted} == set(definitions()["volumes"])
    for service in instances().values():
        assert service["environment"]["MSSQL_LOG_DIR"] == "/var/opt/mssql-log"


def test_instances_are_called_as_their_services_and_wait_for_their_volumes():
    for name, one in instances().items():
        assert one["hostname"] == name
        assert one["depends_on"] == {"volumes": {"condition": "service_completed_successfully"}}
        assert f"{name}-log:/volumes/{name}-log" in definitions()["services"]["volumes"]["volumes"]


@pytest.mark.parametrize("number", range(1, INITIATORS_MAX + 1))
def test_a_profile_has_so_many_initiators(number):
    there = [name for name, one in instances().items() if str(number) in one.get("profiles", [str(number)])]
    assert there == ["target", *(f"initiator{one}" for one in range(1, number + 1))]


def test_no_two_instances_publish_the_same_port():
    published = [port.split(":")[1] for service in instances().values() for port in service["ports"]]
    assert len(set(published)) == len(published) == 2 * (INITIATORS_MAX + 1)


def test_the_memory_that_an_instance_takes_is_that_of_the_file():
    for service in instances().values():
        assert service["environment"]["MSSQL_MEMORY_LIMIT_MB"] == str(compose._MEMORY_DEFAULT_MB)


def test_each_instance_has_processors_of_its_own_if_its_variable_names_them():
    variables = {compose.cpuset_variable(name): str(number) for number, name in enumerate(instances())}
    assert len(variables) == INITIATORS_MAX + 1
    found = docker_engine.project(compose.ROOT, FILE, GIVEN | variables)["services"]
    assert [found[name]["cpuset"] for name in instances()] == list(variables.values())
    assert {one["cpuset"] for one in instances().values()} == {""}
    assert not any("cpus" in one for one in instances().values())


def test_a_container_gets_the_password_in_its_environment_only():
    for service in instances().values():
        assert service["environment"].pop("MSSQL_SA_PASSWORD") == GIVEN["MSSQL_SA_PASSWORD"]
        assert GIVEN["MSSQL_SA_PASSWORD"] not in repr(service)
        [_, check] = service["healthcheck"]["test"]
        assert 'SQLCMDPASSWORD="$MSSQL_SA_PASSWORD"' in check
        assert " -P" not in check


@pytest.mark.process
@pytest.mark.parametrize("folder", ["mssql-tools", "mssql-tools18"])
def test_the_health_check_finds_sqlcmd_in_old_and_new_images(tmp_path, folder):
    tool = tmp_path / folder / "bin" / "sqlcmd"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$SQLCMDPASSWORD $*" >> "$0.called"\n')
    tool.chmod(0o755)
    [_, check] = instances()["target"]["healthcheck"]["test"]
    line = check.replace("/opt/", f"{tmp_path}/")
    assert subprocess.run(["/bin/sh", "-c", line], env={"MSSQL_SA_PASSWORD": "a b"}, check=False).returncode == 0
    assert tool.with_name("sqlcmd.called").read_text().startswith("a b -C -S 127.0.0.1 -U sa")


# -- .env --------------------------------------------------------------------------------------------------------------


def test_the_password_is_created_on_first_use_kept_and_readable_by_this_user_alone(root):
    made = compose.password()
    assert passwords.satisfies_policy(made)
    assert made.isalnum()
    assert (root / ".env").stat().st_mode & 0o777 == 0o600
    assert f"MSSQL_SA_PASSWORD={made}\n" in (root / ".env").read_text()
    assert compose.password() == made
    assert repr(made) == "Secret(...)"
    assert passwords.new() != made


def test_values_in_the_file_are_kept_and_read_as_compose_reads_them(root):
    before = "# mine\nexport MSSQL_PID=Express\nACCEPT_EULA='Y' # yes\nMSSQL_TARGET_CPUSET=0-1 # two"
    (root / ".env").write_text(before)
    made = compose.password()
    assert (root / ".env").read_text() == f"{before}\nMSSQL_SA_PASSWORD={made}\n"
    assert [compose.value(name) for name in ("MSSQL_PID", "ACCEPT_EULA", "MSSQL_TARGET_CPUSET")] == [
        "Express",
        "Y",
        "0-1",
    ]


def test_the_environment_precedes_the_file_which_is_then_not_created(root, monkeypatch):
    monkeypatch.setenv("MSSQL_SA_PASSWORD", GIVEN["MSSQL_SA_PASSWORD"])
    assert compose.password() == GIVEN["MSSQL_SA_PASSWORD"]
    assert not (root / ".env").exists()


def test_a_file_that_others_may_read_is_made_private(root):
    (root / ".env").write_text("MSSQL_SA_PASSWORD=Str0ngEnough\n")
    (root / ".env").chmod(0o644)
    assert compose.password() == "Str0ngEnough"
    assert (root / ".env").stat().st_mode & 0o777 == 0o600


def test_another_users_file_that_others_may_read_is_refused(root, monkeypatch):
    (root / ".env").write_text("MSSQL_SA_PASSWORD=Str0ngEnough\n")
    (root / ".env").chmod(0o644)

    def chmod(path: Path, mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", chmod)
    with pytest.raises(
        compose.EnvFileError, match=r"\.env holds a password that others may read, and belongs to another user"
    ):
        compose.password()


@pytest.mark.parametrize("weak", ["short1A", "onlysmallletters", "small0and1digits"])
def test_a_password_that_sql_server_would_refuse_is_refused_at_once(root, weak):
    (root / ".env").write_text(f"MSSQL_SA_PASSWORD={weak}\n")
    with pytest.raises(compose.EnvFileError, match="too weak for SQL Server") as caught:
        compose.password()
    assert weak not in str(caught.value)


# -- the command docker ------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(values: dict[str, str]) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


@pytest.mark.process
def test_whether_an_engine_answers_is_found_out(environment, root, monkeypatch):
    monkeypatch.setattr(compose, "PROBE_TIMEOUT_S", 120.0)
    with docker_engine.running() as docker:
        environment(docker.environment)
        assert compose.engine_answers()
        assert not (root / ".env").exists()
    assert not compose.engine_answers()


@pytest.mark.process
def test_an_engine_that_hangs_is_given_up(environment, monkeypatch):
    monkeypatch.setattr(compose, "PROBE_TIMEOUT_S", 0.5)
    environment({"PATH": f"{docker_engine.HERE}:{os.environ['PATH']}", "DOCKER_STAND_IN_FAULT": "hangs"})
    assert not compose.engine_answers()


@pytest.mark.process
@pytest.mark.parametrize(
    "values, text",
    [
        ({"PATH": "/nowhere"}, r"docker is not installed: see https://"),
        ({"DOCKER_STAND_IN": "/nowhere"}, r"the Docker engine does not answer: start Docker Desktop"),
        ({"DOCKER_STAND_IN_FAULT": "no compose"}, r"no Compose plugin: apt-get install"),
        ({}, r"licence terms .* not accepted.*set ACCEPT_EULA=Y in the environment or in .*\.env"),
        ({"ACCEPT_EULA": "no"}, r"ACCEPT_EULA=Y"),
    ],
)
def test_a_missing_prerequisite_is_one_line_with_its_remedy(environment, values, text):
    with docker_engine.running() as docker:
        environment(docker.environment | values)
        with pytest.raises(compose.ComposeError, match=text) as caught:
            compose.up(["target"], version="2022", cpusets={}, watch=lambda: None, tell=print)
        assert "\n" not in str(caught.value)
        assert docker.containers() == []


@pytest.mark.parametrize(
    "said, text",
    [
        ("Bind for 127.0.0.1:14330 failed: port is already allocated", r"port 14330 on 127\.0\.0\.1 is in use"),
        ("failed to bind host port for 127.0.0.1:14341:172.18.0.2:1434/tcp: address already in use", "port 14341 "),
        (
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            "no image of SQL Server for linux/arm64/v8",
        ),
        (
            "Requested CPUs are not available - requested 8-11, available: 0-7",
            r"the machine on which Docker runs lacks some of the processors 8-11: see docker-compose\.yml",
        ),
        ("write /var/lib/docker/tmp: no space left on device", "the disk is full"),
        ("permission denied while trying to connect to the Docker daemon socket", "this user may not use Docker"),
        (f"odd: {GIVEN['MSSQL_SA_PASSWORD']}", r"docker compose up failed: odd: \*\*\*$"),
        ("", "docker compose up failed: exit code 1"),
    ],
)
def test_dockers_reason_is_one_line_without_the_password(environment, said, text):
    environment(GIVEN)
    with pytest.raises(compose.ComposeError, match=text) as caught:
        compose._expect(
            subprocess.CompletedProcess([], 1, "", f"progress\n{said}\n" if said else ""), "docker compose up failed"
        )
    assert "\n" not in str(caught.value)


def test_a_list_of_containers_is_read_as_old_and_new_versions_of_compose_write_it(monkeypatch):
    row = (
        '{"Service": "target", "Name": "lab-target-1", "Image": "mcr.microsoft.com/mssql/server:2022-latest", "State": "running", "Health": "healthy", "ExitCode": 0,'
        ' "Publishers": [{"URL": "127.0.0.1", "TargetPort": 1433, "PublishedPort": 14330, "Protocol": "tcp"}]}'
    )
    for text in (row, f"[{row}]"):
        monkeypatch.setattr(compose, "_compose", lambda *_, text=text: text)
        found = compose.containers()["target"]
        assert (found.ports, found.version) == ({1433: 14330}, "2022")
    monkeypatch.setattr(compose, "_compose", lambda *_: "\n")
    assert compose.containers() == {}
