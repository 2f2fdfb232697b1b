"""The test clients as Locust knows them: what `locust -f` runs.

    locust -f harness/load/locustfile.py
    locust -f harness/load/locustfile.py --headless --users 10 --run-time 30s --csv calls --lab-file lab.toml

is a Locust test of its own (`alone`): the web page, or a run without one. And

    locust -f harness/load/locustfile.py --worker --master-host 10.0.0.5

joins the run of the harness that listens there (`harness matrix --master-bind-host 10.0.0.5`); `harness worker
10.0.0.5` is the short form. HARNESS_TOKEN lets it in. All of Locust's options, its LOCUST_ variables and its files of
settings are valid.

**Native threads.** pyodbc waits inside the driver, where gevent cannot switch: one call would stop every greenlet of
the process, heartbeats included. A hand-over to gevent's thread pool per call costs several times the call. Therefore a
user owns a native thread, which sends from a cell's start to its stop (`harness.load.threads`), and nothing in this
process may be patched: under `monkey.patch_all` threads that log block each other for ever. Locust patches when it is
imported, unless LOCUST_SKIP_MONKEY_PATCH is set; so this file, which Locust imports afterwards, begins the process anew
with that variable.
"""

import logging
import os
import sys

from gevent import monkey

if monkey.is_module_patched("threading"):
    os.execve(sys.executable, sys.orig_argv, {**os.environ, "LOCUST_SKIP_MONKEY_PATCH": "1"})

from typing import Any

from locust import events, runners
from locust.runners import LocalRunner, WorkerRunner

from harness.load import own_options, sealed_sockets
from harness.load.locust_process import TestClient, VisibleRecord  # noqa: F401  Locust looks for user classes here
from harness.load.worker import Worker

REPORT_EVERY_S = 1.0  # Locust's 3 are slow for a page that moves

runners.WORKER_REPORT_INTERVAL = REPORT_EVERY_S
sealed_sockets.install()
logging.setLogRecordFactory(VisibleRecord)


def on_init(environment: Any, runner: Any, **_: Any) -> None:
    """Locust has connected to the master."""
    if isinstance(runner, WorkerRunner):
        Worker(environment, runner).join()
        environment.events.quit.add_listener(on_quit)  # after those of other locustfiles and of plugins
    elif isinstance(runner, LocalRunner):
        from harness.load.alone import Alone  # noqa: PLC0415  it imports what a worker does without

        Alone(environment, runner)
    else:
        sys.exit("harness: the master of workers is a run: harness matrix --master-bind-host ADDRESS")


def on_quit(exit_code: int, **_: Any) -> None:
    os._exit(exit_code)  # threads that are still in a call do not hold the process


events.init_command_line_parser.add_listener(own_options.add_options)  # type: ignore[no-untyped-call]
events.init.add_listener(on_init)  # type: ignore[no-untyped-call]
