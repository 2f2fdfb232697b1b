import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from harness.lab import drivers
from harness.lab.drivers import Driver, NoDriver, Secret
from tests.token_structure import HOSTILE

MICROSOFT = Driver("microsoft", "/opt/libmsodbcsql-18.so", "file")
FREETDS = Driver("freetds", "FreeTDS", "odbcinst.ini")


def string(driver: Driver, password: str = "pass") -> Secret:
    return driver.connection_string(
        host="127.0.0.1", port=1433, user="sa", password=password, database="SSBTarget", program="test"
    )


def test_each_driver_gets_the_keywords_it_understands() -> None:
    assert string(MICROSOFT) == (
        "DRIVER=/opt/libmsodbcsql-18.so;UID=sa;PWD=pass;DATABASE=SSBTarget;APP=test;"
        "SERVER=127.0.0.1,1433;TrustServerCertificate=yes;Encrypt=no"
    )
    assert string(FREETDS) == (
        "DRIVER=FreeTDS;UID=sa;PWD=pass;DATABASE=SSBTarget;APP=test;"
        "SERVER=127.0.0.1;PORT=1433;TDS_Version=7.4;ClientCharset=UTF-8"
    )


def test_without_a_user_the_operating_system_vouches_and_encryption_can_be_demanded() -> None:
    server = {"host": "sql1", "port": 1433, "user": None, "password": None, "database": "d", "program": "p"}
    assert MICROSOFT.connection_string(**server, encrypt="strict", trust_server_certificate=False) == (
        "DRIVER=/opt/libmsodbcsql-18.so;Trusted_Connection=yes;DATABASE=d;APP=p;"
        "SERVER=sql1,1433;TrustServerCertificate=no;Encrypt=strict"
    )
    assert MICROSOFT.connection_string(**server, encrypt="mandatory").endswith(";Encrypt=yes")
    for name in ("ODBC Driver 17 for SQL Server", "/opt/microsoft/libmsodbcsql-17.10.so.5.1"):
        with pytest.raises(NoDriver, match=rf"{name} does not know encrypt = strict: use version 18"):
            Driver("microsoft", name, "file").connection_string(**server, encrypt="strict")
    assert FREETDS.connection_string(**server, encrypt="mandatory").endswith(";Encryption=require")
    with pytest.raises(NoDriver, match=r"FreeTDS verifies no certificate .* set trust_server_certificate = true"):
        FREETDS.connection_string(**server, encrypt="mandatory", trust_server_certificate=False)


def test_an_application_in_entra_signs_in_by_microsofts_driver_alone() -> None:
    login = {
        "host": "sql1",
        "port": 1433,
        "user": "7b1c",
        "password": "s",
        "is_entra": True,
        "database": "d",
        "program": "p",
    }
    assert "UID=7b1c;PWD=s;Authentication=ActiveDirectoryServicePrincipal;" in MICROSOFT.connection_string(**login)
    with pytest.raises(drivers.NoDriver, match="entra"):
        FREETDS.connection_string(**login)


def test_a_password_with_special_characters_is_quoted() -> None:
    assert "PWD={a;b}}c};" in string(MICROSOFT, "a;b}c")


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_value_of_a_connection_string_is_another_one(user: str, password: str, database: str) -> None:
    text = MICROSOFT.connection_string(
        host="sql1", port=1433, user=user, password=password, database=database, program="p"
    )
    pairs = re.findall(r"(\w+)=(?:\{((?:[^}]|\}\})*)\}|([^;{}]*))(?:;|\Z)", text)
    assert ";".join(f"{key}={{{braced}}}" if braced else f"{key}={plain}" for key, braced, plain in pairs) == text
    found = {key: braced.replace("}}", "}") or plain for key, braced, plain in pairs}
    assert list(found) == ["DRIVER", "UID", "PWD", "DATABASE", "APP", "SERVER", "TrustServerCertificate", "Encrypt"]
    assert (found["UID"], found["PWD"], found["DATABASE"]) == (user, password, database)


def test_a_user_without_a_password_does_not_sign_in_as_the_account_of_the_process() -> None:
    text = MICROSOFT.connection_string(host="s", port=1, user="u", password=None, database="d", program="p")
    assert ";UID=u;PWD={};" in text and "Trusted_Connection" not in text


def test_no_repr_shows_a_connection_string() -> None:
    assert "pass" not in repr(string(MICROSOFT))
    assert "pass" not in repr({"connection": [string(MICROSOFT)]})


@pytest.mark.parametrize("kind, expected", [("auto", MICROSOFT), ("microsoft", MICROSOFT), ("freetds", FREETDS)])
def test_the_best_driver_of_a_kind_is_chosen(kind: drivers.Kind, expected: Driver) -> None:
    assert drivers.choose(kind, [MICROSOFT, FREETDS]) == expected


def test_a_missing_driver_says_what_to_install() -> None:
    with pytest.raises(NoDriver, match="apt-get install tdsodbc"):
        drivers.choose("freetds", [MICROSOFT])
    with pytest.raises(NoDriver, match=r"pip install mssql-python-odbc .* or apt-get install tdsodbc"):
        drivers.choose("auto", [])


def test_on_windows_a_driver_must_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(NoDriver, match=r"found: install Microsoft's version 18 \(https://learn.microsoft.com/.*\)$"):
        drivers.choose("auto", [])


def test_microsofts_driver_is_found_in_its_wheel() -> None:
    found = drivers.find()
    assert found[0].kind == "microsoft"
    assert found[0].origin == "wheel mssql-python-odbc"


def test_the_wheel_of_a_mac_has_its_driver_by_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "mssql_python_odbc" / "libs" / "macos" / "arm64" / "lib" / "libmsodbcsql.18.dylib"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "mssql_python_odbc" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    # A client's test may have imported that of this machine.
    monkeypatch.delitem(sys.modules, "mssql_python_odbc", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert drivers.find()[0].name == str(library)


@pytest.mark.process
def test_the_driver_manager_is_never_asked_while_it_would_pool_connections() -> None:
    code = (
        "import pyodbc; pyodbc.drivers = lambda: exit(pyodbc.pooling); from harness.lab import drivers; drivers.find()"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.process
def test_a_driver_is_opened_in_a_folder_with_any_letters(tmp_path: Path) -> None:
    library = Path(drivers.choose("microsoft").name)
    folder = tmp_path / "Téléchargements" / "下载 ;{}"
    folder.parent.mkdir()
    folder.symlink_to(library.parent)
    driver = Driver("microsoft", str(folder / library.name), "here")
    text = driver.connection_string(host="x", port=1, user="u", password="p", database="d", program="t")
    with pytest.raises(drivers.OdbcError, match="Neither DSN nor SERVER"):  # which the driver itself says
        drivers.connect(Secret(text.replace("SERVER=", "NOBODY=")))


@pytest.mark.process
def test_where_pyodbc_does_not_load_a_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyodbc'] = None; from harness.cli import main; main(['doctor', '--lab', 'embedded'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    assert re.fullmatch(r"harness: pyodbc does not load \(.*\): .*unixodbc.*\n", ended.stderr)
