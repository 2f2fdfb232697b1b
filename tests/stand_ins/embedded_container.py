"""The process in a container of the stand-in for Docker: an embedded instance on its own loopback address. It resolves
the names of the other containers, as Docker's name server would."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from harness.embedded.server import serve


def know_hosts(addresses: dict[str, str]) -> None:
    """Resolve the names of containers; leave all others to the system."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        return resolve(addresses.get(host, host), *arguments, **options)

    socket.getaddrinfo = getaddrinfo


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    know_hosts(given["hosts"])
    sys.exit(
        serve.main(
            name=given["hostname"],
            host=given["address"],
            port=1433,
            admin_port=0,
            data=Path(given["data"]),
            server_version=given["version"],
            with_parent=True,
        )
    )
