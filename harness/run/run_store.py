"""A run that lies where pyarrow reaches it: in S3 (`s3:`, `s3a:`), Google Cloud Storage (`gs:`), Azure (`abfs:`), HDFS.

Spark does not read it there: for S3 the package pyspark lacks the jars of hadoop-aws. What a reduction reads is
gathered in a few files before Spark begins anyway. So the run is copied to this machine, and its tables go back.

How to sign in, and to which server, is pyarrow's: a URI's query (`?endpoint_override=host:9000&scheme=http`), and the
environment and files of each store's own tools (AWS_ACCESS_KEY_ID, ~/.aws; HADOOP_HOME with libhdfs). Source:
https://arrow.apache.org/docs/python/filesystems.html
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, copy_files

from harness.failures import MachineFailure
from harness.files import journal, manifest_file
from harness.run.run_folder import NoRun

SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_READ, _MADE = (manifest_file.NAME, journal.NAME, "raw"), "reduced"
_HERE = LocalFileSystem()
_RETRIED_S = 30  # by the library of Google Cloud Storage, which else tries for more than ten minutes; no signal ends it
# What to do, by what the libraries say. https://arrow.apache.org/docs/python/filesystems.html
_REMEDIES = {
    "Unable to load libjvm": "HDFS needs Java: set JAVA_HOME to its folder",
    "Unable to load libhdfs": "HDFS needs Hadoop: set HADOOP_HOME to its folder, ARROW_LIBHDFS_DIR to that of "
    "libhdfs.so, and CLASSPATH to what `hadoop classpath --glob` prints",
    "valid account name": "write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/RUN",
    "DefaultAzureCredential": "run `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    "OAuth2 access token": "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "NETWORK_CONNECTION": "check the network, or name a server of your own: ?endpoint_override=HOST:PORT&scheme=http",
    "Missing bucket name": "write s3://BUCKET/RUN",
    "Path cannot start with a separator": "write STORE://BUCKET/RUN",
    "ACCESS_DENIED": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user with rights to the bucket",
}


class StoreFailure(MachineFailure):
    """A store cannot be read or written."""


def is_store(place: Path | str) -> bool:
    """Whether a run is named by the URI of a store, and not by a path or a `file:` URI."""
    scheme = re.match(r"([a-z][a-z0-9+.-]*):/", place) if isinstance(place, str) else None
    return scheme is not None and scheme[1] in SCHEMES


def public(uri: str) -> str:
    """The URI without what may be secret in it: a key before `@`, and its query."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


@contextmanager
def fetched(uri: str) -> Iterator[Path]:
    """Yield a folder with the raw records of a run; when the block ends, its reduced tables are written to the store.

    Raises NoRun where the URI names no run, and StoreFailure.
    """
    try:
        store, path = FileSystem.from_uri(_for_pyarrow(uri))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreFailure(f"{public(uri)} cannot be reached: {_reason(error)}") from None
    with copied(store, path.rstrip("/"), public(uri)) as folder:
        yield folder


@contextmanager
def copied(store: FileSystem, path: str, name: str) -> Iterator[Path]:
    """Do what `fetched` does, for a path of a file system of pyarrow's; `name` is for errors."""
    with tempfile.TemporaryDirectory(prefix="harness-run-") as scratch:
        folder = Path(scratch) / PurePosixPath(path).name
        try:
            infos = store.get_file_info([f"{path}/{part}" for part in _READ])
            if infos[0].type != FileType.File:
                raise NoRun(f"{name} is not a result folder: it has no {manifest_file.NAME}")
            raw = store.get_file_info(FileSelector(f"{path}/raw", allow_not_found=True, recursive=True))
            if leaving := [info.path for info in raw if ".." in PurePosixPath(info.path).parts]:
                raise StoreFailure(f"{name} cannot be read: {leaving[0]} leaves the run's folder: remove it")
            folder.mkdir()
            for info in infos:
                if info.type != FileType.NotFound:
                    _copy(store, info.path, _HERE, str(folder / PurePosixPath(info.path).name))
        except (OSError, pa.ArrowException) as error:
            raise StoreFailure(f"{name} cannot be read: {_reason(error)}") from None
        yield folder
        try:
            store.create_dir(f"{path}/{_MADE}")
            _copy(_HERE, str(folder / _MADE), store, f"{path}/{_MADE}")
        except (OSError, pa.ArrowException) as error:
            raise StoreFailure(f"{name} cannot be written: {_reason(error)}") from None


def _for_pyarrow(uri: str) -> str:
    if uri.startswith(("gs:", "gcs:")) and "retry_limit_seconds=" not in uri:
        uri += f"{'&' if '?' in uri else '?'}retry_limit_seconds={_RETRIED_S}"
    return re.sub(r"^s3a:", "s3:", uri)


def _copy(source: FileSystem, path: str, destination: FileSystem, to: str) -> None:
    copy_files(path, to, source_filesystem=source, destination_filesystem=destination)


def _reason(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in text), "")
    # Google's and Amazon's errors go on with the same in other words.
    return f"{text.partition('. ')[0].rstrip('.')}: {remedy}" if remedy else text
