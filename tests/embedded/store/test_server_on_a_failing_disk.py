"""`harness serve` on a disk whose fdatasync fails, through a real driver: a library that is loaded before libc fails it."""

import resource
import shutil
import subprocess

import pyodbc
import pytest

from tests.embedded.server.test_serve import PASSWORD, connected, ready, serve

pytestmark = [pytest.mark.process, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")]

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
int fdatasync(int fd) {
    static int (*real)(int);
    if (access(FAILING, F_OK) == 0) { errno = EIO; return -1; }
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    return real(fd);
}
"""
SET_UP = """
CREATE DATABASE d;
USE d;
CREATE QUEUE q;
CREATE SERVICE s ON QUEUE q ([DEFAULT]);
CREATE TABLE t (n int);
"""
SEND = """
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (?);
"""
RECEIVED = "SET NOCOUNT ON; DECLARE @r table (b varbinary(max)); RECEIVE message_body FROM q INTO @r; SELECT b FROM @r;"
UNCERTAIN = ["INSERT INTO t VALUES (1)", "CREATE QUEUE r"]

__all__ = ["serve"]  # a fixture


@pytest.fixture
def failing(tmp_path):
    """Compile the library; while the file that it returns exists, fdatasync fails."""
    file = tmp_path / "failing"
    (tmp_path / "failing.c").write_text(LIBRARY)
    words = ["cc", "-shared", "-fPIC", f'-DFAILING="{file}"', "-o", str(tmp_path / "failing.so"), "failing.c", "-ldl"]
    subprocess.run(words, cwd=tmp_path, check=True)
    return file


def test_a_failed_sync_ends_the_instance_and_the_next_start_has_each_message_once_or_not_at_all(
    serve, failing, tmp_path, monkeypatch
):
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "failing.so"))
    process = serve()
    connection = connected(ready(process)["port"], "sa", PASSWORD)
    connection.execute(SET_UP)
    connection.execute(SEND, b"\x01")
    connection.execute("INSERT INTO t VALUES (0)")
    failing.touch()
    with pytest.raises(pyodbc.Error) as told:
        connection.execute(SEND, b"\x02")
    assert told.value.args[0].startswith("08"), told.value  # a broken connection, not an error that it did not happen
    assert process.wait(60) == 3
    log = (tmp_path / "data" / "ERRORLOG").read_text()
    assert log.count("The data folder failed: [Errno 5]") == 1
    failing.unlink()
    for statement in UNCERTAIN:  # each ends an instance, and what is there afterwards stays there
        process = serve()
        connection = connected(ready(process)["port"], "sa", PASSWORD)
        connection.execute("USE d")
        failing.touch()
        with pytest.raises(pyodbc.Error, match="08"):
            connection.execute(statement)
        assert process.wait(60) == 3
        failing.unlink()
    process = serve()
    connection = connected(ready(process)["port"], "sa", PASSWORD)
    connection.execute("USE d")
    bodies = [bytes(row.b) for row in connection.execute(RECEIVED).fetchall()]
    assert bodies in ([b"\x01"], [b"\x01", b"\x02"])
    process.kill()
    process.wait()
    connection = connected(ready(serve())["port"], "sa", PASSWORD)
    connection.execute("USE d")
    assert not connection.execute(RECEIVED).fetchall()


def test_a_full_disk_fails_a_statement_without_its_row_count_and_names_the_database(serve, tmp_path):
    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))

    connection = connected(ready(serve(preexec_fn=limit_files))["port"], "sa", PASSWORD)
    connection.execute("CREATE DATABASE d; CREATE TABLE d.dbo.t (n int, b varbinary(max)); USE d;")
    connection.execute("INSERT INTO t VALUES (1, 0x00)")
    insert = "INSERT INTO t VALUES (2, ?)"
    with pytest.raises(pyodbc.Error, match="The transaction log for database 'd' is full due to 'NOTHING'"):
        connection.execute(insert, bytes(2**20))  # not a count of one row, which is followed by the error
    assert "The operating system says: File too large" in (tmp_path / "data" / "ERRORLOG").read_text()
    assert connection.execute(insert, b"").rowcount == 1
    assert [row.n for row in connection.execute("SELECT n FROM t").fetchall()] == [1, 2]
