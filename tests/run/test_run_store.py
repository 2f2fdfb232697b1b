import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import fs

from harness import reductions
from harness.definitions.matrix import Cell
from harness.run import run_store
from harness.run.run_folder import NoRun
from harness.run.run_store import StoreFailure, copied, is_store, public
from tests import commands
from tests.results_fixture import write_raw

NAME = "s3://bucket/runs/x"
CELLS = [Cell.parse("i1-t2-r1-p100-v2008")]


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """What stands in for a bucket; it holds a run."""
    write_raw(tmp_path / "bucket" / "runs" / "x", CELLS, scale=40, measure_s=0.3, settle_s=0.1)
    return tmp_path / "bucket"


@pytest.fixture
def store(bucket: Path) -> fs.FileSystem:
    return fs.SubTreeFileSystem(str(bucket), fs.LocalFileSystem())


@pytest.mark.parametrize(
    "place, expected",
    [
        *((f"{scheme}://bucket/run", True) for scheme in ("s3", "s3a", "gs", "abfs", "hdfs")),
        *((place, False) for place in ("results/x", "file:///x", "ftp://host/x", Path("s3:/x"))),
    ],
)
def test_stores_are_known_by_their_schemes(place: Path | str, expected: bool) -> None:
    assert is_store(place) == expected


def test_a_uri_is_shown_without_its_secrets() -> None:
    assert public("s3://key:secret@bucket/runs/x/?session_token=abc&scheme=http") == NAME


def test_a_run_is_copied_and_its_tables_are_written_back(bucket: Path, store: fs.FileSystem) -> None:
    with copied(store, "runs/x", NAME) as folder:
        names = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        run = bucket / "runs" / "x"
        assert names == {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
        assert folder.name == "x"
        (folder / "reduced").mkdir()
        (folder / "reduced" / "cells.csv").write_text("cell_id\n")
    assert not folder.exists()
    assert (run / "reduced" / "cells.csv").read_text() == "cell_id\n"


def test_what_fails_in_between_writes_nothing_back(bucket: Path, store: fs.FileSystem) -> None:
    with pytest.raises(KeyError), copied(store, "runs/x", NAME) as folder:
        (folder / "reduced").mkdir()
        raise KeyError
    assert not (bucket / "runs" / "x" / "reduced").exists() and not folder.exists()


def test_a_path_without_a_run_is_named(store: fs.FileSystem) -> None:
    with pytest.raises(NoRun, match=f"^{NAME} is not a result folder: it has no manifest.json$"):
        copied(store, "runs", NAME).__enter__()


def test_an_object_whose_name_leaves_the_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bucket(fs.FileSystemHandler):
        """Names of objects are any text."""

        objects = ("runs/x/manifest.json", "runs/x/raw/calls/../../../../evil")

        get_type_name = delete_dir = delete_dir_contents = delete_root_dir_contents = create_dir = None
        delete_file = move = copy_file = open_append_stream = open_output_stream = normalize_path = None

        def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
            return [fs.FileInfo(path, self._type(path)) for path in paths]

        def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
            return self.get_file_info([name for name in self.objects if name.startswith(selector.base_dir)])

        def _type(self, path: str) -> fs.FileType:
            is_folder = any(name.startswith(f"{path}/") for name in self.objects)
            return (
                fs.FileType.Directory
                if is_folder
                else fs.FileType.File
                if path in self.objects
                else fs.FileType.NotFound
            )

        def open_input_stream(self, path: str) -> pa.BufferReader:
            return pa.BufferReader(b"{}")

        open_input_file = open_input_stream

    with pytest.raises(StoreFailure, match=r"raw/calls/\.\./.*evil leaves the run's folder"):
        copied(fs.PyFileSystem(Bucket()), "runs/x", NAME).__enter__()


def test_a_store_that_cannot_be_written_is_one_line(bucket: Path, store: fs.FileSystem) -> None:
    (bucket / "runs" / "x" / "reduced").write_text("no folder")
    with pytest.raises(StoreFailure, match=f"^{NAME} cannot be written: "), copied(store, "runs/x", NAME) as folder:
        (folder / "reduced").mkdir()
        (folder / "reduced" / "cells.csv").write_text("")


def test_a_store_that_cannot_be_reached_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreFailure, match=r"cannot be reached: .*: write abfs://CONTAINER@ACCOUNT.dfs"):
        run_store.fetched("abfs://run").__enter__()

    def unreachable(uri: str) -> None:
        raise OSError(f"{said}\ndlopen(/usr/java/latest/libjvm.so) failed")

    monkeypatch.setattr(run_store, "FileSystem", SimpleNamespace(from_uri=unreachable))
    for said, remedy in (
        ("Unable to load libjvm", "set JAVA_HOME"),
        ("Unable to load libhdfs", "set HADOOP_HOME"),
        ("AWS Error NETWORK_CONNECTION", "endpoint_override=HOST:PORT"),
        ("Missing bucket name", "write s3://BUCKET/RUN"),
    ):
        with pytest.raises(StoreFailure, match=f"^hdfs://name/run cannot be reached: {said}: .*{remedy}") as failure:
            run_store.fetched("hdfs://name/run").__enter__()
        assert "\n" not in str(failure.value)
    said = "no OAuth2 access token. The request was not sent. Learn more about"
    with pytest.raises(StoreFailure, match=r"reached: no OAuth2 access token: run `gcloud auth"):
        run_store.fetched("gs://bucket/run").__enter__()


def test_google_cloud_storage_is_not_tried_for_longer_than_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an account its library tries for more than ten minutes, and no signal ends that."""
    asked: list[str] = []

    def refused(uri: str) -> None:
        asked.append(uri)
        raise OSError

    monkeypatch.setattr(run_store, "FileSystem", SimpleNamespace(from_uri=refused))
    for uri in ("gs://b/run", "gs://b/run?scheme=http", "gs://b/run?retry_limit_seconds=5", "s3://b/run"):
        with pytest.raises(StoreFailure):
            run_store.fetched(uri).__enter__()
    assert asked == [
        "gs://b/run?retry_limit_seconds=30",
        "gs://b/run?scheme=http&retry_limit_seconds=30",
        "gs://b/run?retry_limit_seconds=5",
        "s3://b/run",
    ]


def test_the_command_names_the_tables_where_they_stay(
    store: fs.FileSystem, bucket: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reduce(folder: Path, **_: object) -> list[Path]:
        path = folder.resolve() / "reduced" / "cells.csv"  # as reductions do
        path.parent.mkdir()
        path.write_text("")
        return [path]

    monkeypatch.setattr(run_store, "fetched", lambda uri: copied(store, "runs/x", public(uri)))
    monkeypatch.setattr(reductions, "reduce", reduce)
    done = commands.harness(tmp_path, "reduce", "s3a://key:secret@bucket/runs/x")
    assert (done.code, done.out) == (0, "table: s3a://bucket/runs/x/reduced/cells.csv\n")
    shutil.rmtree(bucket / "runs" / "x" / "reduced")
    done = commands.harness(tmp_path, "reduce", "bucket/runs/x")
    assert (done.code, done.out) == (0, "table: bucket/runs/x/reduced/cells.csv\n")
    done = commands.harness(tmp_path, "reduce", "s3://bucket/runs/x", "--master", "local[1]")
    told = "s3://bucket/runs/x is reduced on this machine, to which it was copied: leave out --master"
    assert (done.code, done.line) == (2, told)
