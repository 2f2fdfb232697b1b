"""Addresses of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its written form: no name is looked up but `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in {"localhost", "localhost.localdomain"}
