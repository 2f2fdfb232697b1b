"""Readers outside the server, in place of the target's activation procedure: an activator starts them for one step.

They are processes of this machine, so on another machine than the target's each message crosses the network twice.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.activator.config import PASSWORD
from harness.activator.supervisor import GRACE_S
from harness.files.workload_file import Receiving
from harness.lab import scripts
from harness.lab.instances import Instance, Lab, LabError, connections
from harness.lab.processes import Child

_NAMES = {
    "Notification": "MySSBLabActivation",
    "NotificationService": "//MySSB.com/Lab/S_Activation",
    "NotificationQueue": "dbo.MySSBLabActivationQueue",
}
_BEGIN = ("drop", "drop_procedure", "queue", "service", "notification")  # a step that was killed leaves its objects


@contextlib.contextmanager
def running(lab: Lab, receiving: Receiving, folder: Path) -> Iterator[None]:
    """Let an activator and its readers receive until the block ends; their files are in a folder.

    Raises LabError if the activator has ended before. Afterwards the queue has no activation.
    """
    with connections([lab.target]) as (target,):
        variables = lab.target.variables | _NAMES
        for name in _BEGIN:
            scripts.run(target, f"activation/{name}.sql", variables)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "activator.toml"
        file.write_text(_file(lab.target, receiving), encoding="utf-8")
        activator = Child(
            "activator",
            [sys.executable, "-m", "harness", "activator", str(file), "--with-parent"],
            log=folder / "activator.log",
            environment={PASSWORD: lab.target.login.password} if lab.target.login else {},
        )
        try:
            yield
            if death := activator.death():
                raise LabError(death)
        finally:
            activator.stop(2 * GRACE_S)
            scripts.run(target, "activation/drop.sql", variables)


def _file(target: Instance, receiving: Receiving) -> str:
    """The activator's TOML."""
    login = {"authentication": "integrated"}
    if target.login:
        login = {"user": target.login.user, "authentication": "entra" if target.login.is_entra else "sql"}
    server = {
        "host": target.host,
        "port": target.port,
        **login,
        "encrypt": target.encrypt,
        "trust_server_certificate": target.trust_server_certificate,
        "database": target.database,
        "notification_queue": _NAMES["NotificationQueue"],
    }
    command = [sys.executable, "-m", "harness.activator.reader"]
    command += ["--top", str(receiving.receive_top), "--timeout-ms", str(receiving.receive_timeout_ms)]
    queue = {"name": target.queue, "command": command, "max": receiving.max_queue_readers}
    return "\n".join(("[server]", *_lines(server), "[[queue]]", *_lines(queue), ""))


def _lines(values: dict[str, object]) -> list[str]:
    """Strings, numbers, booleans and lists of strings are written alike in JSON and TOML."""
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]
