"""The guard of every page that the harness serves: `harness ui`, `harness matrix --web` and `locust -f locustfile.py`.

A browser sends to 127.0.0.1 whatever a page of any web site asks for, and a page here can start a load. So a request
must pass these checks before the page's own code sees it:

- **Host**: its name is one of this machine's. A foreign site may point its own name at 127.0.0.1 (DNS rebinding), and
  is then of the same origin for the browser. The port is not compared: behind `ssh -L` it is another one.
- **Origin and Sec-Fetch-Site**: no other page causes the request, whatever its method. A link to the page may be
  followed. Programs that are no browsers send neither header, and pass.
- **Token**: a page that listens beyond this machine wants HARNESS_TOKEN, which the browser asks for, and TLS, because
  the same token opens the connections of workers (`sealed_sockets`).

No answer permits another site to read it or to show it in a frame. Locust permits the first to everybody (CORS), so
its headers are taken out.
"""

import logging
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask
from werkzeug import Request, Response
from werkzeug.serving import make_server

from harness.failures import UsageFailure
from harness.files.settings import TOKEN, load_token
from harness.machine.addresses import is_loopback

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("localhost", LOOPBACK, "[::1]")
# Browsers take a name of digits and dots for an address, and nobody can point an address at another machine.
ADDRESSES = r"[\d.]+|\[[\da-f:.]+\]"
HEADERS = [
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
]


def protect(app: Flask, host: str = LOOPBACK, *, is_encrypted: bool = False) -> None:
    """Guard an app that will listen on this host, or everywhere if that is empty; raises UsageFailure."""
    names, token = [re.escape(name) for name in (*LOCAL_NAMES, host) if name], ""
    if not is_loopback(host):
        if not is_encrypted:
            raise UsageFailure(
                f"--web-host opens the page to other machines: add --tls-cert, --tls-key and {TOKEN}, "
                f"or leave it out and reach the page with ssh -L 8089:{LOOPBACK}:8089"
            )
        token = load_token()
        names += [re.escape(socket.gethostname()), ADDRESSES]
    app.wsgi_app = _Guard(app.wsgi_app, "|".join(names), token)  # type: ignore[method-assign]


@contextmanager
def listening(app: Flask, port: int) -> Iterator[None]:
    """Serve an app on this machine during the block. The port must be free: else the server ends the process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else each answer is a line
    server = make_server(LOOPBACK, port, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Guard:
    def __init__(self, app: WSGIApplication, names: str, token: str) -> None:
        self._app = app
        self._hosts = re.compile(rf"({names})(:\d+)?", re.IGNORECASE | re.ASCII)
        self._token = token

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Any:
            headers_kept = [header for header in headers if not header[0].lower().startswith("access-control-")]
            return start_response(status, headers_kept + HEADERS, *failure)

        return (self._refusal(Request(environ)) or self._app)(environ, start)

    def _refusal(self, request: Request) -> Response | None:
        if not self._hosts.fullmatch(request.headers.get("Host", "")):
            return Response("This page has another name: open it as 127.0.0.1 or localhost, with its port.\n", 403)
        if _is_foreign(request):
            return Response("Another web page asked for this, so nothing was done: open the address itself.\n", 403)
        authorization = request.authorization
        if self._token and not compare_digest(
            ((authorization and authorization.password) or "").encode(), self._token.encode()
        ):
            challenge = {"WWW-Authenticate": 'Basic realm="harness"'}
            return Response("The password is HARNESS_TOKEN, with any user name.\n", 401, challenge)
        return None


def _is_foreign(request: Request) -> bool:
    """Whether a browser says that another page caused a request, and not by a link that somebody followed."""
    headers = request.headers
    if "Origin" in headers and headers["Origin"].partition("://")[2] != headers["Host"]:
        return True
    if headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}:
        return False
    how = request.method, headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return how != ("GET", "navigate", "document")
