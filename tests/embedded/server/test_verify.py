"""`harness serve --verify`: a folder is whole, or what is damaged is named."""

import os

import pytest

from harness.embedded.server import data_folder
from harness.embedded.store.disk import FolderDisk
from harness.embedded.store.row_file import Mark, RowFile
from tests.commands import harness

ROWS = [("t", bytes([number]), bytes(10)) for number in range(9)]


@pytest.fixture(autouse=True)
def umask():
    """A data folder makes the files of its process private."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path):
    """The data folder of an instance that was killed after a commit."""
    disk, identity = FolderDisk(tmp_path), bytes(16)
    rows = RowFile.create(disk, identity, 0, ())
    rows.adopt(disk)
    mark = Mark.create(disk, identity)
    for number in range(3):
        rows.append(ROWS[3 * number : 3 * number + 3])
        mark.write(rows.number, rows.checksum)
    (tmp_path / "service_master_key").write_bytes(bytes(32) + data_folder.checksum_of(bytes(32)))
    return tmp_path


def changed(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_whole_folder_is_counted_and_stays_as_it_is(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    result = harness(folder, "serve", "--verify", ".")
    assert result.code == 0 and "is whole: 9 rows, 3 commits." in result.out
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"} == before


@pytest.mark.parametrize(
    ("name", "at", "words"),
    [
        ("broker.data", 3, "the first 32 bytes of broker.data are damaged"),
        ("broker.data", -3, "commit 3 is missing or damaged, from byte "),
        ("broker.data", 40, "broker.data is damaged from byte 32 on"),
        ("service_master_key", 3, "service_master_key does not match its checksum"),
    ],
)
def test_a_changed_bit_is_named_with_exit_code_3(folder, name, at, words):
    changed(folder / name, at)
    result = harness(folder, "serve", "--verify", ".")
    assert result.code == 3 and words in result.err and "put a copy of the whole folder" in result.err


@pytest.mark.parametrize("name", ["broker.data", "broker.mark"])
def test_a_missing_file_is_named_with_exit_code_3(folder, name):
    (folder / name).unlink()
    result = harness(folder, "serve", "--verify", ".")
    assert result.code == 3 and f"{name} is missing" in result.err


def test_damage_that_loses_nothing_is_named(folder):
    changed(folder / "broker.mark", 5)
    (folder / "service_master_key").unlink()
    result = harness(folder, "serve", "--verify", ".")
    assert result.code == 0
    assert data_folder.HALF_MARK in result.out and data_folder.LOST_KEY in result.out


def test_files_of_two_instances_do_not_belong_together(folder, tmp_path):
    (other := tmp_path / "other").mkdir()
    Mark.create(FolderDisk(other), b"another instance")
    (other / "broker.mark").replace(folder / "broker.mark")
    assert "broker.data and broker.mark are of two instances" in harness(folder, "serve", "--verify", ".").err


def test_what_holds_no_data_is_said(tmp_path):
    assert "holds no data" in harness(tmp_path, "serve", "--verify", ".").out
    missing = harness(tmp_path, "serve", "--verify", "nowhere")
    assert missing.code == 2 and "is no folder" in missing.err
