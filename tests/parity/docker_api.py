"""A stand-in for a Docker engine: the part of its HTTP interface that testcontainers needs for a few containers.

Starting the container starts an embedded instance, whatever the image, on a free port of 127.0.0.1 and with the password
given to the container.
"""

import json
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.files.settings import child_environment

NETWORK = "beef" * 16


@dataclass
class Container:
    created: dict[str, Any]
    instance: subprocess.Popen[bytes] | None = None
    port: int = 0


class Engine:
    """Serves until the end of its `with` block. With `dies` a container ends at once, and this text is its log."""

    def __init__(self, folder: Path, *, dies: str = "") -> None:
        self.created: dict[str, Any] = {}  # of the newest container
        self.networks: list[str] = []
        self._containers: dict[str, Container] = {}
        self._folder = folder
        self._dies = dies
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0]
                status, answer = engine.answer(self.command, path, json.loads(body or b"{}"))
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"tcp://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for identifier in list(self._containers):
            self._remove(identifier)

    @property
    def removed(self) -> bool:
        """Whether every container, of at least one, has been removed."""
        return bool(self.created) and not self._containers

    def _start(self, identifier: str) -> None:
        if self._dies:
            return
        container = self._containers[identifier]
        command = [sys.executable, "-m", "harness", "serve", "--name", "stand-in", "--port", "0"]
        # Not a `Child`, which dies with the thread that started it: a request's thread ends at once.
        container.instance = subprocess.Popen(
            [*command, "--data", str(self._folder / identifier)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment({"HARNESS_PASSWORD": self.environment["MSSQL_SA_PASSWORD"]}),
        )
        assert container.instance.stdout is not None
        container.port = json.loads(container.instance.stdout.readline())["port"]

    def _remove(self, identifier: str) -> None:
        instance = self._containers.pop(identifier).instance
        if instance is not None:
            instance.terminate()
            instance.communicate(timeout=120)

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.created["Env"])

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:  # noqa: PLR0911  a table
        match method, path.strip("/").split("/"):
            case "GET", ["version"]:
                return 200, {"Version": "0", "ApiVersion": "1.44", "MinAPIVersion": "1.24"}
            case "GET", ["images", *_]:
                return 200, {"Id": "sha256:0", "RepoTags": []}
            case "POST", ["containers", "create"]:
                self.created = body
                identifier = f"{len(self._containers):064x}"
                self._containers[identifier] = Container(body)
                return 201, {"Id": identifier, "Warnings": []}
            case "POST", ["containers", identifier, "start"]:
                self._start(identifier)
                return 204, b""
            case "GET", ["containers", "json"]:
                return 200, [
                    self._inspected(identifier) | {"Ports": [{"PrivatePort": 1433, "PublicPort": container.port}]}
                    for identifier, container in self._containers.items()
                ]
            case "GET", ["containers", identifier, "json"]:
                return 200, self._inspected(identifier)
            case "POST", ["networks", "create"]:
                self.networks.append(body["Name"])
                return 201, {"Id": NETWORK, "Warning": ""}
            case "GET", ["networks", _]:
                return 200, {"Id": NETWORK, "Name": self.networks[-1]}
            case "DELETE", ["networks", _]:
                self.networks.pop()
                return 204, b""
            case "GET", ["containers", _, "logs"]:
                text = self._dies.encode()
                return 200, b"\x01\0\0\0" + len(text).to_bytes(4, "big") + text
            case "DELETE", ["containers", identifier]:
                self._remove(identifier)
                return 204, b""
        return 404, {"message": f"the stand-in does not support {method} {path}"}

    def _inspected(self, identifier: str) -> dict[str, Any]:
        ports = {"1433/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(self._containers[identifier].port)}]}
        return {
            "Id": identifier,
            "Name": "/stand-in",
            "Image": "sha256:0",
            "Config": {"Tty": False, "Labels": {}},
            "State": {"Status": "exited" if self._dies else "running"},
            "NetworkSettings": {"Ports": ports},
            "HostConfig": {"LogConfig": {"Type": "json-file"}},
        }
