"""`harness serve`: its refusals to start, its line when ready, and its end."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyodbc
import pytest

from harness.embedded.server import authentication
from harness.embedded.store import row_file
from harness.embedded.store.disk import FolderDisk
from harness.embedded.store.row_file import RowFile
from harness.lab import drivers
from tests.processes import Child

pytestmark = pytest.mark.process

PASSWORD = "Lifetime!1"
Serve = Callable[..., subprocess.Popen]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start `harness serve` with these arguments; end it after the test."""
    with ExitStack() as stack:

        def start(*words: str, password: str = PASSWORD, data: Path = tmp_path / "data", **options) -> Child:
            environment = {**os.environ, "HARNESS_PASSWORD": password}
            command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--data", str(data), *words]
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = stack.enter_context(Child(command, env=environment, **pipes | options))
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)  # coverage does not see what a killed one did
            return process

        yield start


def ready(process: subprocess.Popen) -> dict:
    line = process.stdout.readline()
    assert line, process.stderr.read().decode()
    return json.loads(line)


def refusal(process: subprocess.Popen, exit_code: int = 3) -> str:
    """The last line of a process that refused to start: the only one outside the log."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode == exit_code
    return errors.decode().strip().splitlines()[-1]


def test_it_prints_its_address_in_one_line_and_admits_sa_alone(serve):
    process = serve("--name", "target")
    address = ready(process)
    assert address["name"] == "target"
    assert address["host"] == "127.0.0.1"
    text = drivers.choose("microsoft").connection_string(
        host="127.0.0.1", port=address["port"], user="sa", password=PASSWORD, database="master", program="tests"
    )
    connection = pyodbc.connect(text, autocommit=True, timeout=120)
    assert connection.execute("SELECT 1 AS one").fetchone().one == 1
    connection.close()
    with pytest.raises(pyodbc.Error, match="4060"):
        pyodbc.connect(text.replace("DATABASE=master", "DATABASE=nowhere"), timeout=120)
    with pytest.raises(pyodbc.Error, match="18456"):
        pyodbc.connect(text.replace("UID=sa", "UID=somebody"), timeout=120)
    with pytest.raises(pyodbc.Error, match="does not support the attachment of a file in a login"):
        pyodbc.connect(f"{text};AttachDBFileName=/data/master.mdf", timeout=120)


def test_a_login_without_a_database_opens_the_default_one_of_its_name(serve):
    address = ready(serve())
    options = {"host": "127.0.0.1", "port": address["port"], "program": "tests"}
    as_sa = drivers.choose("microsoft").connection_string(user="sa", password=PASSWORD, database="master", **options)
    admin = pyodbc.connect(as_sa, autocommit=True, timeout=120)
    admin.execute("CREATE DATABASE app; CREATE DATABASE other")
    admin.execute(f"CREATE LOGIN ann WITH PASSWORD = '{PASSWORD}', DEFAULT_DATABASE = [app], CHECK_POLICY = OFF")
    admin.execute("USE app; CREATE USER ann FOR LOGIN ann")
    as_ann = as_sa.replace("UID=sa", "UID=ann").replace("DATABASE=master;", "")
    connection = pyodbc.connect(as_ann, autocommit=True, timeout=120)
    assert connection.execute("SELECT DB_NAME()").fetchval() == "app"
    connection.close()
    admin.execute("ALTER LOGIN ann WITH DEFAULT_DATABASE = other")
    with pytest.raises(pyodbc.Error, match="4064"):
        pyodbc.connect(as_ann, timeout=120)
    named = "SELECT default_database_name FROM sys.server_principals WHERE name = 'ann'"
    assert admin.execute(named).fetchval() == "other"
    admin.close()


def test_an_error_of_a_fatal_severity_ends_the_connection_and_no_other(serve):
    address = ready(serve())
    text = drivers.choose("microsoft").connection_string(
        host="127.0.0.1", port=address["port"], user="sa", password=PASSWORD, database="master", program="tests"
    )
    fatal, other = (pyodbc.connect(text, autocommit=True, timeout=120) for _ in range(2))
    guard = "BEGIN TRY RAISERROR('the whole script?', 20, 1) WITH LOG END TRY BEGIN CATCH END CATCH CREATE TABLE dbo.t (i int)"
    with pytest.raises(pyodbc.Error, match="SQL Server is terminating this process"):
        fatal.execute(guard)
    with pytest.raises(pyodbc.Error, match="08S01"):
        fatal.execute("SELECT 1")
    assert other.execute("SELECT COUNT(*) FROM sys.tables").fetchval() == 0
    other.close()


def test_sigterm_ends_it_with_exit_code_0(serve):
    process = serve()
    ready(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def test_a_terminal_that_is_closed_ends_it_as_sigterm_does(serve):
    leader, follower = pty.openpty()
    process = serve(stderr=follower)
    os.close(follower)
    ready(process)
    os.close(leader)  # what it writes there fails from now on
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 0


def test_with_parent_it_ends_when_standard_input_ends(serve):
    process = serve("--with-parent")
    ready(process)
    process.communicate(timeout=120)  # closes it
    assert process.returncode == 0


def test_with_parent_it_ends_when_its_parent_is_killed(serve, tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    words = ["-m", "harness", "serve", "--port", "0", "--data", str(tmp_path / "data"), "--with-parent"]
    parent = subprocess.Popen(
        [sys.executable, "-c", script, sys.executable, *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "HARNESS_PASSWORD": PASSWORD},
    )
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([child], timeout=120)
    assert not alive


def test_a_port_in_use_is_an_error_that_names_the_port_and_the_option(serve):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal(serve("--port", str(port)))
    assert f"port {port} on 127.0.0.1 is in use" in message
    assert "--port" in message


def test_two_servers_cannot_share_a_folder(serve):
    first = serve()
    ready(first)
    message = refusal(serve())
    assert f"in use by process {first.pid}" in message


def test_it_does_not_start_without_a_password(serve):
    assert "HARNESS_PASSWORD is not set" in refusal(serve(password=""), exit_code=2)


def test_the_old_name_of_the_password_is_read_and_the_log_says_so(serve, monkeypatch):
    monkeypatch.setenv("HARNESS_SA_PASSWORD", PASSWORD)
    process = serve(password="")
    connected(ready(process)["port"], "sa", PASSWORD).close()
    process.terminate()
    _, log = process.communicate(timeout=120)
    assert b"set HARNESS_PASSWORD: this release is the last that reads HARNESS_SA_PASSWORD" in log


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(serve, tmp_path):
    (tmp_path / "file").touch()
    message = refusal(serve(data=tmp_path / "file"))
    assert str(tmp_path / "file") in message and "--data" in message


def test_the_password_is_neither_in_the_log_nor_in_the_command_line(serve):
    process = serve()
    ready(process)
    assert PASSWORD not in Path(f"/proc/{process.pid}/cmdline").read_text()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert PASSWORD not in errors.decode()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_the_data_folder_is_the_owners_alone_before_anything_is_in_it(serve, tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "ERRORLOG").touch(mode=0o644)  # as an earlier version left it
    process = serve(umask=0)
    ready(process)
    found = modes(data)
    assert {"broker.data", "broker.mark", "service_master_key", "lock", "ERRORLOG", "ERRORLOG.1"} <= set(found)
    assert set(found.values()) == {0o600} and data.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_share_is_refused(serve, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    message = refusal(serve(data=shared))
    assert str(shared) in message and "inside it" in message
    assert shared.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", ["broker.db", "broker.data"])
def test_data_of_another_layout_is_one_line_that_says_what_to_do(serve, tmp_path, name):
    data = tmp_path / "data"
    data.mkdir()
    with pytest.MonkeyPatch.context() as patch:  # an instance of another version
        patch.setattr(row_file, "LAYOUT", row_file.LAYOUT + 1)
        RowFile.create(FolderDisk(data), bytes(16), 1, ()).adopt(FolderDisk(data))
    (data / "broker.data").rename(data / name)
    message = refusal(serve())
    assert str(data) in message and "--data" in message and "cannot be read" in message


SECRETS = ("Sup3r-secret-login", "Sup3r-secret-changed", "Sup3r-secret-master", "Sup3r-secret-key", PASSWORD)


def connected(port: int, user: str, password: str, **options: str) -> pyodbc.Connection:
    text = drivers.choose("auto").connection_string(
        host="127.0.0.1", port=port, user=user, password=password, database="master", program="tests", **options
    )
    return pyodbc.connect(text, autocommit=True, timeout=120)


def test_no_password_is_on_disk(serve, tmp_path):
    process = serve("--version", "2022")
    port = ready(process)["port"]
    connection = connected(port, "sa", PASSWORD)
    connection.execute(
        f"CREATE LOGIN ann WITH PASSWORD = '{SECRETS[0]}'; ALTER LOGIN ann WITH PASSWORD = '{SECRETS[1]}';"
    )
    connection.execute(f"CREATE MASTER KEY ENCRYPTION BY PASSWORD = '{SECRETS[2]}'")
    connection.execute(f"CREATE CERTIFICATE c ENCRYPTION BY PASSWORD = '{SECRETS[3]}' WITH SUBJECT = 'c'")
    connection.close()
    process.kill()  # what a thief of the disk finds, without a tidy end
    process.wait()
    content = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert b"ann" in content, "the login is on disk"
    for secret in SECRETS:
        assert secret.encode() not in content and secret.encode("utf-16-le") not in content
    again = ready(serve("--version", "2022"))["port"]
    connected(again, "ann", SECRETS[1]).close()
    with pytest.raises(pyodbc.Error, match="18456"):
        connected(again, "ann", SECRETS[0])


def test_beyond_this_machine_clients_that_do_not_encrypt_are_refused_and_the_log_says_so(serve):
    process = serve("--host", "0.0.0.0")
    port = ready(process)["port"]
    connected(port, "sa", PASSWORD, encrypt="mandatory").close()
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        options = bytes.fromhex("00 000b 0006 01 0011 0001 ff 080000000000 02")  # version; no encryption
        client.sendall(bytes([0x12, 1, 0, 8 + len(options), 0, 0, 0, 0]) + options)
        answer = client.recv(100)
        assert answer[8 + 21 + 6] == 3, "encryption is required"
        assert client.recv(100) == b"", "and the connection is closed"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "clients that do not encrypt with TLS are refused" in errors.decode()
    assert "it does not encrypt" in errors.decode()


def test_a_name_with_newlines_forges_no_line_in_the_log(serve):
    process = serve()
    port = ready(process)["port"]
    with pytest.raises(pyodbc.Error, match="18456"):
        connected(port, "x\r\n2026-01-01 00:00:00,000 INFO forged", "wrong")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert "forged" in errors.decode() and not any(
        line.endswith("INFO forged") for line in errors.decode().splitlines()
    )


def test_a_lost_key_of_the_server_is_replaced_with_the_password_of_the_master_key(serve, tmp_path):
    process = serve("--version", "2022")
    connection = connected(ready(process)["port"], "sa", PASSWORD)
    connection.execute("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Master!1'")
    connection.execute("CREATE CERTIFICATE c WITH SUBJECT = 'c'")
    connection.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    key = tmp_path / "data" / "service_master_key"
    lost = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    connection = connected(ready(serve("--version", "2022"))["port"], "sa", PASSWORD)
    with pytest.raises(pyodbc.Error, match="15315"):
        connection.execute("ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY")
    with pytest.raises(pyodbc.Error, match="15313"):
        connection.execute("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'wrong'")
    connection.execute("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'Master!1'")
    connection.execute("ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY; CLOSE MASTER KEY;")
    connection.close()
    assert key.read_bytes() != lost


def test_it_serves_with_a_certificate_of_the_operators(serve, tmp_path):
    (tmp_path / "mine.pem").write_bytes(authentication.self_signed("mine"))
    port = ready(serve("--certificate", str(tmp_path / "mine.pem")))["port"]
    connected(port, "sa", PASSWORD, encrypt="mandatory").close()


@pytest.mark.parametrize("words", [("--certificate", "missing.pem"), ("--certificate-key", "key.pem")])
def test_a_certificate_that_cannot_be_used_is_an_error_that_names_the_option(serve, words):
    assert "--certificate" in refusal(serve(*words), exit_code=2)


def test_certificates_and_their_keys_go_into_files_and_come_back(serve, tmp_path):
    connection = connected(ready(serve("--version", "2022"))["port"], "sa", PASSWORD)
    key = "FILE = 'C:\\certs\\own.pvk', {} BY PASSWORD = 'file'"

    def error(text: str) -> int:
        with pytest.raises(pyodbc.Error) as caught:
            connection.execute(text)
        return int(re.search(r"\((\d+)\)", str(caught.value))[1])

    encoded = "SELECT CERTENCODED(CERT_ID('{}'))"
    connection.execute("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'; CREATE CERTIFICATE own WITH SUBJECT = 'own'")
    before = connection.execute(encoded.format("own")).fetchval()
    backup = "BACKUP CERTIFICATE own TO FILE = '{}' WITH PRIVATE KEY ({})"
    connection.execute(backup.format("C:\\certs\\own.cer", key.format("ENCRYPTION")))
    connection.execute("BACKUP CERTIFICATE own TO FILE = '../../public.cer'")
    written = sorted(path.name for path in (tmp_path / "data" / "files").iterdir())
    assert written == ["own.cer", "own.pvk", "public.cer"]
    assert all(path.stat().st_mode & 0o77 == 0 for path in (tmp_path / "data" / "files").iterdir())
    assert error("BACKUP CERTIFICATE own TO FILE = 'own.cer'") == 15240
    assert error("BACKUP CERTIFICATE own TO FILE = '..'") == 15240
    assert error("BACKUP CERTIFICATE nosuch TO FILE = 'x'") == 15151
    assert error("CREATE CERTIFICATE unnamed FROM FILE = ''") == 15208
    connection.execute("DROP CERTIFICATE own")
    create = "CREATE CERTIFICATE own FROM FILE = '/else/own.cer' WITH PRIVATE KEY ({})"
    assert error(create.format(key.format("DECRYPTION").replace("'file'", "'wrong'"))) == 15297
    assert error(create.format(key.format("DECRYPTION")).replace("own.cer", "none.cer")) == 15208
    connection.execute(create.format(key.format("DECRYPTION")))
    connection.execute("CREATE CERTIFICATE public_part FROM FILE = 'public.cer'")
    assert error(backup.format("p.cer", key.format("ENCRYPTION")).replace("own TO", "public_part TO")) == 15297
    assert connection.execute(encoded.format("own")).fetchval() == before
    kinds = "SELECT pvt_key_encryption_type FROM sys.certificates WHERE name = '{}'"
    assert [connection.execute(kinds.format(name)).fetchval() for name in ("own", "public_part")] == ["MK", "NA"]
    connection.execute("CREATE CERTIFICATE other WITH SUBJECT = 'other'; DROP CERTIFICATE own")
    connection.execute("BACKUP CERTIFICATE other TO FILE = 'other.cer'")
    assert error(create.format(key.format("DECRYPTION")).replace("own.cer", "other.cer")) == 15297
    connection.execute("BACKUP MASTER KEY TO FILE = 'master.key' ENCRYPTION BY PASSWORD = 'file'")
    restore = "RESTORE MASTER KEY FROM FILE = 'master.key' DECRYPTION BY PASSWORD = '{}' ENCRYPTION BY PASSWORD = 'new'"
    assert error(restore.format("wrong")) == 15317
    connection.execute("CREATE DATABASE elsewhere; USE elsewhere; CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'x'")
    connection.execute("CREATE CERTIFICATE moved WITH SUBJECT = 'moved'")
    connection.execute("CREATE CERTIFICATE aside ENCRYPTION BY PASSWORD = 'z' WITH SUBJECT = 'no key protects it'")
    connection.execute(restore.format("file"))  # another key: the certificate's is protected anew
    connection.execute(
        "BACKUP CERTIFICATE moved TO FILE = 'm.cer' WITH PRIVATE KEY (FILE = 'm.pvk', ENCRYPTION BY PASSWORD = 'y')"
    )
    connection.execute(
        "ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY; OPEN MASTER KEY DECRYPTION BY PASSWORD = 'new'"
    )
    connection.execute("USE master")
    connection.execute(restore.format("file"))  # the same key
    connection.execute("CREATE CERTIFICATE signer ENCRYPTION BY PASSWORD = 'p' WITH SUBJECT = 's'")
    connection.execute("CREATE PROCEDURE signed AS SELECT 1")
    sign = "ADD SIGNATURE TO signed BY CERTIFICATE signer WITH PASSWORD = '{}'"
    assert error(sign.format("wrong")) == 15556
    connection.execute(sign.format("p"))
    connection.close()
