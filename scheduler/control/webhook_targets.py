"""Where webhooks may lead: out of this machine and its networks, unless a setting allows one, and never to the service.

Who may add a webhook may otherwise ask whatever listens near the service, with the service's place in the network. The
address is checked after its name is resolved, and that same address is then connected to: a name may lead elsewhere the
next moment.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from schedulearn.scheduler.errors import InvalidError

_TRANSLATED = IPv6Network("64:ff9b::/96")  # to IPv4, by the network

Address = IPv4Address | IPv6Address


class TargetRefused(OSError):
    """Nothing is sent there."""


class WebhookTargets:
    """`networks`: which private ones may be reached too, as in "10.0.0.0/8". `own_port`: where the service listens.
    Raises InvalidError for a network that is none."""

    def __init__(self, networks: Iterable[str] = (), own_port: int = 0) -> None:
        self._own_port = own_port
        try:
            self._networks = [ip_network(each) for each in networks]
        except ValueError as error:
            raise InvalidError(f"webhook_networks: {error}", field="webhook_networks") from error

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Those of a host, where webhooks may lead to all of them. Raises OSError, of which TargetRefused."""
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for address in addresses:
            self._check(address, port)
        return addresses

    def _check(self, text: str, port: int) -> None:
        address = _meant(ip_address(text.partition("%")[0]))
        if port == self._own_port and _is_ours(address):
            raise TargetRefused("it leads to this service itself")
        if address.is_global and not address.is_multicast:
            return
        if not any(address in network for network in self._networks):
            raise TargetRefused(
                f"it leads to {address}, which is not on the internet: an operator may allow that by the setting "
                "`webhook_networks`"
            )


def _meant(address: Address) -> Address:
    """The address of version 4 that one of version 6 stands for, or that one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_ours(address: Address) -> bool:
    """Whether it is an address of this machine: one that can be listened on."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
        return True
