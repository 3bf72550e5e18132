"""Addresses that webhooks may lead to.

Private networks need a setting, and the service itself is never allowed. Otherwise a webhook could reach whatever
listens near the service. The address is checked after its name is resolved, and the connection goes to that address: a
name may resolve to another one a moment later.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from schedulearn.scheduler.errors import InvalidError

Address = IPv4Address | IPv6Address

# The standard library is not used: the addresses that it calls global differ between versions.
_IPV4_REFUSED = tuple(
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_IPV6_INTERNET = IPv6Network("2000::/3")
"""The only block of IPv6 that is routed on the internet."""
_IPV6_REFUSED = tuple(
    IPv6Network(each)
    for each in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_EMBEDS_IPV4 = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated by SIIT
    (IPv6Network("64:ff9b::/96"), 0),  # translated by NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
"""IPv6 blocks whose addresses contain an IPv4 address, and the number of bits after it."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""Values of the third quarter of an IPv6 address whose last quarter is an IPv4 address."""
_METADATA = frozenset(
    ip_address(each)
    for each in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # AWS, containers
        "169.254.170.23",  # AWS, containers
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, containers
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure, in a public block
    )
)
"""Metadata services of clouds, which give a machine's credentials to any program on it."""


class TargetRefused(OSError):
    """A target is not allowed, and nothing is sent to it."""


class WebhookTargets:
    """Check of the addresses that webhooks lead to.

    `networks`: private networks that are allowed, such as "10.0.0.0/8". `own_port`: the port of the service.
    `setting`: the one that has the networks. Raises InvalidError for an invalid network."""

    def __init__(self, networks: Iterable[str] = (), own_port: int = 0, setting: str = "webhook_networks") -> None:
        self._own_port, self._setting = own_port, setting
        try:
            self._networks = [ip_network(each) for each in networks]
        except ValueError as error:
            raise InvalidError(f"{setting}: {error}", field=setting) from error

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises TargetRefused if one is not allowed, OSError if it has none."""
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for address in addresses:
            self.check(address, port)
        return addresses

    def check(self, text: str, port: int) -> None:
        """Raise TargetRefused for an address that is not allowed, ValueError for a name."""
        given = ip_address(text.partition("%")[0])
        address = _meant(given)
        if port == self._own_port and _is_ours(address):
            raise TargetRefused("it leads to this service itself")
        if address in _METADATA:
            raise TargetRefused(f"it leads to {address}, the metadata service of a cloud")
        if _is_on_internet(address) or any(each in network for network in self._networks for each in (given, address)):
            return
        raise TargetRefused(
            f"it leads to {address}, which is not on the internet: an operator may allow that by the setting "
            f"`{self._setting}`"
        )


def _is_on_internet(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _IPV4_REFUSED)
    return address in _IPV6_INTERNET and not any(address in network for network in _IPV6_REFUSED)


def _meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    value = int(address)
    for network, bits_after in _EMBEDS_IPV4:
        if address in network:
            return IPv4Address(value >> bits_after & 0xFFFFFFFF)
    if value >> 32 == 0 and value > 1:  # "IPv4-compatible", but neither `::` nor `::1`
        return IPv4Address(value)
    if value >> 32 & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(value & 0xFFFFFFFF)
    return address


def _is_ours(address: Address) -> bool:
    """Whether it is an address of this machine: one that can be listened on."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
        return True
