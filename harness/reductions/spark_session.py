"""Start and stop Spark: local by default, small, silent, and stopped with its JVM afterwards.

Everything that Spark writes besides our tables goes to one scratch folder in the system's temporary folder. So does the
JVM's log. If Spark does not start, the error quotes the JVM's exception or the last line of that log.

The JVM ends with its context, or with the block of `one_jvm`, in which several contexts follow one another. Where
PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET name a JVM that somebody else started, as spark-submit does, Spark runs
in it. Its memory, its options, its folder and its log are its own, and it goes on afterwards.

On a cluster the driver stays here. It listens on the address by which it reaches a standalone master, so that a cluster
on 127.0.0.1 stays there, unless spark-defaults.conf names another. A master that does not answer, and a cluster that
takes no task, are errors of one line.
"""

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import install_exception_handler
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness.machine import processors
from harness.machine.system_packages import JAVA_MINIMUM, how_to_install, java_version
from harness.reductions import packages
from harness.reductions.raw_files import SparkUnavailable

# The threads share the memory, so their number does not grow with the machine.
THREADS = min(processors.count(), 8)
LOCAL = f"local[{THREADS}]"
# A full sweep (528 cells, a few million calls) fits with room; the whole JVM stays below twice this.
DRIVER_MEMORY = "1g"
# A reduction ends before the JVM's second compiler pays off: with it, 30 s become 45 s.
# Of Spark's package the JVM loads 23,000 classes. To verify their bytecode, and to collect garbage each time that they
# outgrow a limit which begins at 21 MB, takes a tenth of a reduction.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:MetaspaceSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
STOP_TIMEOUT_S = 20
KNOCK_TIMEOUT_S = 5.0
# Executors start and fetch the packages in some seconds, on busy machines in minutes.
EXECUTOR_WAIT_S = 300
# What executors elsewhere run Python with: compiled parts of packages fit one minor version.
EXECUTOR_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# A query of few rows is done before its compiling pays off.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


def jvm_settings(scratch: Path) -> dict[str, str]:
    """Return Spark's settings for a JVM of ours, which writes into a folder."""
    return {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} {JVM_OPTIONS}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def settings(master: str) -> dict[str, str]:
    """Return Spark's settings for a driver on this machine and the executors of `master`, here or in a cluster."""
    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if is_local(master) else {}
    return {
        **loopback,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Else PySpark tells the JVM the line of every call, in ten messages where one would do.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(THREADS),
        # Hints say what is broadcast, and partitions are few: to adapt plans costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        # Our files are many and small.
        "spark.sql.files.openCostInBytes": str(256 * 1024),
        "spark.sql.files.maxPartitionBytes": str(16 * 1024 * 1024),
    }


@contextmanager
def session(master: str = LOCAL) -> Iterator[SparkSession]:
    """Yield the context with Spark's SQL for few rows, which takes one or two seconds more.

    Queries of the sessions that it makes are compiled.
    """
    with context(master):
        # The settings of queries are a session's own.
        session_ = SparkSession.builder.getOrCreate().newSession()
        for name, value in INTERPRETED.items():
            session_.conf.set(name, value)
        yield session_


def kept_session() -> SparkSession:
    """Return a session of the Spark that runs, or start one that ends with Python."""
    if SparkContext._active_spark_context is None:
        exits = ExitStack()
        exits.enter_context(context())
        atexit.register(exits.close)
    return SparkSession.builder.getOrCreate()


@contextmanager
def context(master: str = LOCAL, own: Mapping[str, str] | None = None) -> Iterator[SparkContext]:
    """Yield a context for one job: the running one, or a new one that ends with the block.

    `master` and `own` apply to a new one; `own` settings of Spark override those of reductions. Our packages travel
    with it to a cluster.
    """
    active = SparkContext._active_spark_context
    if active is not None:
        yield active
        return
    address = reach(master)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with ExitStack() as block:
            travelling = {} if is_local(master) else block.enter_context(packages.travelling())
            (_shared or block).enter_context(_jvm())
            started = _start(master, {**(own or {}), **travelling}, address)
            try:
                if not is_local(master):
                    _wait_for_executor(started, master)
                yield started
            finally:
                _stop(started)
    finally:
        # Spark replaces the handler and does not restore it.
        if on_interrupt is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)


# What ends the JVM of a block that shares one.
_shared: ExitStack | None = None


@contextmanager
def one_jvm() -> Iterator[None]:
    """Let the contexts of a block, one after another, run in the JVM that the first of them starts."""
    global _shared  # noqa: PLW0603
    with ExitStack() as _shared:
        try:
            yield
        finally:
            _shared = None


@contextmanager
def _jvm() -> Iterator[None]:
    """Provide the JVM that runs, or start one that ends with the block."""
    if _answers(SparkContext._gateway):
        yield
        return
    require_java()
    SparkContext._gateway = SparkContext._jvm = None
    scratch = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    try:
        gateway = _launch(scratch)
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
        try:
            yield
        finally:
            _end(gateway)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def require_java() -> None:
    """Raise SparkUnavailable unless a Java that Spark can use is installed."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    remedy = f"install Java {JAVA_MINIMUM} or later: {how_to_install('java')}"
    if shutil.which(command) is None:
        where = f" in JAVA_HOME={home}" if home else ""
        raise SparkUnavailable(f"no Java{where}: {remedy}")
    version = java_version(command)
    if version == 0:
        raise SparkUnavailable(f"{command} -version gives no version: {remedy}")
    if version < JAVA_MINIMUM:
        raise SparkUnavailable(f"{command} is Java {version}: {remedy}")


def is_local(master: str) -> bool:
    """Whether the executors of `master` are on this machine and have its interpreter."""
    return master.startswith("local")


def reach(master: str) -> str | None:
    """Return this machine's address as a standalone master sees it; None where Spark finds the way.

    Raises SparkUnavailable if none of the master's addresses answers: Spark itself would try for a minute.
    """
    if not master.startswith("spark://"):
        return None
    failure = ""
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), KNOCK_TIMEOUT_S) as knock:
                return str(knock.getsockname()[0])
        except OSError as error:
            failure = error.strerror or str(error)
        except (ValueError, OverflowError):
            failure = f"{place} is not HOST:PORT"
    raise SparkUnavailable(f"no Spark master answers at {master} ({failure}): start it, or correct --master")


def _wait_for_executor(context: SparkContext, master: str) -> None:
    """Return when an executor has run a task; raises SparkUnavailable where none does."""
    remedy = "look at the logs of its workers"
    try:
        jvm: Any = context._jvm
        job = context._jsc.parallelize([0], 1).countAsync()
        try:
            job.get(EXECUTOR_WAIT_S, jvm.java.util.concurrent.TimeUnit.SECONDS)
            return
        except Py4JJavaError as error:
            if "TimeoutException" not in str(error.java_exception.getClass()):
                raise
        needed = context._conf.get("spark.executor.memory", "1g")
        failure = f"no executor has run a task in {EXECUTOR_WAIT_S} s"
        remedy = f"is a processor free there, and {needed} of memory (spark.executor.memory)? If so, {remedy}"
    except (Py4JError, PySparkException) as error:
        failure = reason(error)
    raise SparkUnavailable(f"the cluster at {master} runs nothing: {failure}; {remedy}")


def _answers(gateway: Any) -> bool:
    try:
        return gateway is not None and gateway.jvm.System.nanoTime() is not None
    except (Py4JError, OSError):
        return False


def _launch(scratch: Path) -> Any:
    """Start a JVM, or connect to the one of PYSPARK_GATEWAY_PORT."""
    log = scratch / "spark.log"
    conf = SparkConf(loadDefaults=False).setAll(list(jvm_settings(scratch).items()))
    try:
        with log.open("wb") as output:
            return launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    except ConnectionRefusedError as error:
        remedy = "no JVM answers at PYSPARK_GATEWAY_PORT: unset it, and Spark starts one"
        raise SparkUnavailable(f"Spark does not start: {remedy}") from error
    except Exception as error:
        raise SparkUnavailable(f"Spark does not start: {reason(error, log)}") from error


def _start(master: str, own: Mapping[str, str], address: str | None) -> SparkContext:
    configuration = SparkConf().setAll([*settings(master).items(), *own.items()])
    if address is not None:
        configuration.setIfMissing("spark.driver.host", address)
    try:
        install_exception_handler()  # as a session does: exceptions of Java become one line
        context = SparkContext(master, "harness", conf=configuration)
    except Exception as error:
        raise SparkUnavailable(f"Spark does not start: {reason(error)}") from error
    if "PYSPARK_PYTHON" not in os.environ:  # else workers would be some python3 of the path
        context.pythonExec = sys.executable if is_local(master) else EXECUTOR_PYTHON
    return context


def reason(error: Exception, log: Path | None = None) -> str:
    """Return the JVM's own exception, or the innermost one of its log, or the log's last line, or else the error's."""
    thrown = re.search(r"^: (?:[\w.]+: )?(.+)$", str(error), re.MULTILINE)
    if thrown:
        return thrown[1].strip()
    text = log.read_text(errors="replace") if log else ""
    if causes := re.findall(r"^Caused by: ([\w.]+: .+)$", text, re.MULTILINE):
        is_name = "UnknownHostException" in causes[-1]
        return f"{causes[-1]}{': name this machine in /etc/hosts' if is_name else ''}"
    return next((line for line in reversed(text.split("\n")) if line.strip()), str(error)).strip()


def _stop(running: SparkContext) -> None:
    # Its server of accumulators, of which we have none, ends beside the rest: PySpark waits for it up to a second.
    accumulators: Any = running._accumulatorServer
    del running._accumulatorServer
    accumulators.handle_error = lambda *_: None  # the JVM leaves without a word
    threading.Thread(target=accumulators.shutdown, daemon=True).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark warns if the JVM has already ended
        try:
            running.stop()
        except (Py4JError, OSError):
            running.stop()  # the second call cleans up what is left in Python
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end(gateway: Any) -> None:
    """End our JVM, which PySpark would keep with all its memory until Python ends."""
    if gateway.proc is None:  # somebody else's
        return
    with suppress(Exception):
        gateway.shutdown()
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None
    # The JVM ends with its standard input.
    with suppress(OSError):
        gateway.proc.stdin.close()
    try:
        gateway.proc.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
