"""The process in a container of the stand-in for Docker: an embedded instance on its own loopback address. It resolves
the names of the other containers, as Docker's name server would."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.embedded.broker import router
from harness.embedded.server import serve


def know_hosts(addresses: dict[str, str]) -> None:
    """Resolve the names of containers in routes; uvloop, which resolves the others, does not ask Python."""
    parse = router.parse_address

    def parse_address(address: str, route: str = "") -> tuple[str, int]:
        host, port = parse(address, route)
        return addresses.get(host, host), port

    router.parse_address = parse_address


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
            throwaway=True,
        )
    )
