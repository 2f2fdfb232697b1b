"""What runs in a container of the stand-in for Docker: an embedded instance at an address of its own on the loopback
interface, in a process that knows the other containers by their names, as Docker's own name server would tell them."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from harness.embedded.server import serve


def know_hosts(addresses: dict[str, str]) -> None:
    """Names of containers resolve; everything else as before."""
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
