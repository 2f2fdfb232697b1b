"""What jobs need on the machines of a cluster: the harness and its packages, an archive that travels with them.

Executors unpack an archive of `spark.archives` in their working folder (PySpark's manual, "Python Package Management").
A virtual environment, as the manual packs it, has only a link to an interpreter. So this archive has packages alone,
and the executors' own Python finds them by PYTHONPATH. It must be of the same minor version, which compiled parts of
packages need. PySpark is not in the archive: executors have that of their Spark.
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.machine.places import PACKAGE, SQL_ROOT

NAME = "harness-packages"
_OF_THE_CLUSTER = frozenset({"pyspark", "py4j"})
_OWN = "service-broker-harness"  # an editable install lists no files
_LEFT_OUT = frozenset({"..", "tests", "include"})  # commands, and what only developers of a package need
_LOADED = "import sys, harness.simulation.spark_job; print(*{name.partition('.')[0] for name in sys.modules})"


@contextmanager
def travelling() -> Iterator[Mapping[str, str]]:
    """Yield Spark's settings with which the packages travel to executors on other machines.

    None travel where PYSPARK_PYTHON names an interpreter that has them.
    """
    if "PYSPARK_PYTHON" in os.environ:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="harness-packages-") as scratch:
        archive = Path(scratch) / f"{NAME}.tar"
        pack(archive)
        yield {"spark.archives": f"{archive.as_uri()}#{NAME}", "spark.executorEnv.PYTHONPATH": NAME}


def pack(archive: Path) -> None:
    """Write a tar file of the harness and of each distribution that a process which runs cells imports.

    It is not compressed: that would take longer than sending 270 MB to a machine nearby.
    """
    # A process of its own imports nothing for a terminal, for figures or for a notebook. Reductions need no more.
    loaded = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True).stdout.split()
    distributions = importlib.metadata.packages_distributions()
    needed = {name for module in loaded for name in distributions.get(module, ())} - _OF_THE_CLUSTER - {_OWN}
    with tarfile.open(archive, "w") as tar:
        tar.add(PACKAGE, "harness")
        if not SQL_ROOT.is_relative_to(PACKAGE):
            tar.add(SQL_ROOT, "harness/sql")
        for name in sorted(needed):
            for file in importlib.metadata.files(name) or ():
                path = Path(str(file.locate()))
                if not _LEFT_OUT & set(file.parts) and path.is_file():
                    tar.add(path, str(file))
