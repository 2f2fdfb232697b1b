"""A stand-in for a Docker engine: the part of its HTTP interface that testcontainers needs for one container.

Starting the container starts an embedded instance, whatever the image, on a free port of 127.0.0.1 and with the password
given to the container.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.files.settings import child_environment

_ID = "c0ffee" * 10


class Engine:
    """Serves until the end of its `with` block. With `dies` the container ends at once, and this text is its log."""

    def __init__(self, folder: Path, *, dies: str = "") -> None:
        self.created: dict[str, Any] = {}
        self.removed = False
        self._folder = folder
        self._dies = dies
        self._instance: subprocess.Popen[bytes] | None = None
        self._port = 0
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
        self._stop()

    def _start(self) -> None:
        if self._dies:
            return
        command = [sys.executable, "-m", "harness", "serve", "--name", "stand-in", "--port", "0"]
        # Not a `Child`, which dies with the thread that started it: a request's thread ends at once.
        self._instance = subprocess.Popen(
            [*command, "--data", str(self._folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment({"HARNESS_PASSWORD": self.environment["MSSQL_SA_PASSWORD"]}),
        )
        assert self._instance.stdout is not None
        self._port = json.loads(self._instance.stdout.readline())["port"]

    def _stop(self) -> None:
        if self._instance is not None:
            self._instance.terminate()
            self._instance.communicate(timeout=120)
            self._instance = None

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
                return 201, {"Id": _ID, "Warnings": []}
            case "POST", ["containers", _, "start"]:
                self._start()
                return 204, b""
            case "GET", ["containers", "json"]:
                return 200, [self._inspected() | {"Ports": [{"PrivatePort": 1433, "PublicPort": self._port}]}]
            case "GET", ["containers", _, "json"]:
                return 200, self._inspected()
            case "GET", ["containers", _, "logs"]:
                text = self._dies.encode()
                return 200, b"\x01\0\0\0" + len(text).to_bytes(4, "big") + text
            case "DELETE", ["containers", _]:
                self._stop()
                self.removed = True
                return 204, b""
        return 404, {"message": f"the stand-in does not support {method} {path}"}

    def _inspected(self) -> dict[str, Any]:
        ports = {"1433/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(self._port)}]}
        return {
            "Id": _ID,
            "Name": "/stand-in",
            "Image": "sha256:0",
            "Config": {"Tty": False, "Labels": {}},
            "State": {"Status": "exited" if self._dies else "running"},
            "NetworkSettings": {"Ports": ports},
            "HostConfig": {"LogConfig": {"Type": "json-file"}},
        }
