"""Address at which workers in job containers reach the service."""

from __future__ import annotations

import fcntl
import socket
import struct

from schedulearn.api.settings import Settings

_BRIDGE = b"docker0"
_SIOCGIFADDR = 0x8915


def bridge_address() -> str | None:
    """This machine's address on Docker's default bridge, as containers see it; None without that bridge."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", _BRIDGE))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def needs_bridge_listener(settings: Settings) -> bool:
    """Return whether a second listener is needed: containers can't reach a service on loopback."""
    return settings.loopback and settings.runtime != "process" and settings.report_url is None


def find_report_url(settings: Settings, runtime: str) -> str | None:
    """Return the default URL of the service for workers of the embedded host; None if none could work."""
    if settings.port == 0:
        return None  # the port that the system chose is not known
    everywhere = settings.everywhere
    if runtime == "docker":
        # In a container, the service does not have the bridge itself, but its own address on it.
        address = bridge_address() or (socket.gethostbyname(socket.gethostname()) if everywhere else settings.host)
        if not (settings.loopback or everywhere):
            address = settings.host
    else:
        address = "127.0.0.1" if everywhere else settings.host
    return f"http://[{address}]:{settings.port}" if ":" in address else f"http://{address}:{settings.port}"
