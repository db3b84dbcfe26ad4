"""Outgoing addresses under a policy: which hosts may be reached, checked where the connection is made.

A text may name an address, or a redirect may. A server that connects to whatever a text names would reach
the metadata service of its cloud, or a database that trusts the local network. So a name is resolved once,
all its addresses are checked, and the connection goes to an address that was checked: a second resolution
could have another answer (DNS rebinding).

The check is in the network backend below the HTTP client, not in front of it. Every connection passes there,
also those of redirects. The HTTP client does not notice: requests have the right `Host`, certificates are
verified for the name in the URL, and connections are shared by name, never by address. (Rewriting URLs to
addresses would share one TLS connection between all names of a content network.)

A redirect to another origin is refused: the HTTP client drops `Authorization` then, but not the headers in
which some providers expect their keys.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

import httpcore2
import httpx2

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Resolves a name for a port; OSError if that is not possible."""

_EMBEDDING: Final = tuple(
    (IPv6Network(network), shift)
    for network, shift in (
        ("::ffff:0:0/96", 0),  # IPv4-mapped
        ("::ffff:0:0:0/96", 0),  # IPv4-translated
        ("::/96", 0),  # IPv4-compatible
        ("64:ff9b::/96", 0),  # NAT64
        ("64:ff9b:1::/48", 0),  # NAT64 for local use; the usual place of the address
        ("2002::/16", 80),  # 6to4
    )
)
"""Networks whose addresses contain an IPv4 address, and how many bits stand behind it."""
_TEREDO: Final = IPv6Network("2001::/32")
_NOT_PUBLIC: Final = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",  # benchmarks
        "240.0.0.0/4",
        "fec0::/10",  # site-local
        "100::/64",  # discard
        "2001:db8::/32",
        "5f00::/16",  # segment routing
    )
)
"""Networks that Python's own tables do not have in all versions."""
_METADATA: Final = frozenset(
    ip_address(address)
    for address in (
        "168.63.129.16",  # Azure; a public address by its number
        "169.254.169.254",  # most clouds
        "169.254.169.253",  # AWS, names
        "169.254.170.2",  # AWS, containers
        "169.254.170.23",  # AWS, Kubernetes
        "169.254.42.42",  # Scaleway
        "169.254.0.23",  # Tencent Cloud
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, Kubernetes
        "fd20:ce::254",  # Google Cloud
        "fd00:42::42",  # Scaleway
        "fe80::a9fe:a9fe",  # OpenStack
    )
)
"""Services of clouds that give credentials to the machines in them. None of them is public, and a network of
the operator allows one only if it is this one address: 169.254.0.0/16 or 0.0.0.0/0 is not meant to."""
_LIMITS: Final = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
_NUMERIC_LABEL: Final = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)


class RefusedAddressError(httpx2.ConnectError):
    """A host that a policy does not allow. Not retried (models.py), and its text names the host but no
    address: what a name inside of a network resolves to is nobody's business."""


def parse_networks(networks: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ip_network(network) for network in networks)


def is_allowed(address: Address, networks: tuple[Network, ...]) -> bool:
    """Whether an address is public, or in one of the networks.

    An address that embeds an IPv4 address is never public by itself: it is allowed if the embedded one is in
    a network, or if its own network is listed and the embedded one is allowed."""
    listed = _is_listed(address, networks)
    embedded = _embedded(address)
    if embedded is None:
        return listed or _is_public(address)
    return _is_listed(embedded, networks) or (listed and _is_public(embedded))


def _is_listed(address: Address, networks: tuple[Network, ...]) -> bool:
    single = address in _METADATA
    return any(
        address in network and (network.num_addresses == 1 or not single)
        for network in networks
        if network.version == address.version
    )


def _embedded(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address in _TEREDO:
        return IPv4Address(int(address) & 0xFFFFFFFF ^ 0xFFFFFFFF)
    for network, shift in _EMBEDDING:
        if address in network and not (address.is_unspecified or address.is_loopback):
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None


def _is_public(address: Address) -> bool:
    if address in _METADATA or any(
        address in network for network in _NOT_PUBLIC if network.version == address.version
    ):
        return False
    return address.is_global and not (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
    )


def is_ambiguous(host: str) -> bool:
    """Whether a host is a number in a form that programs read differently: `2130706433`, `0x7f.1`,
    `0177.0.0.1`, `127.1`. Only four decimal numbers without leading zeros are an IPv4 address."""
    labels = host.rstrip(".").split(".")
    if ":" in host or not _NUMERIC_LABEL.fullmatch(labels[-1]):
        return False
    try:
        return str(IPv4Address(host)) != host
    except ValueError:
        return True


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order in which to try them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for _family, _type, _protocol, _name, place in found))


async def checked_addresses(
    host: str, port: int, networks: tuple[Network, ...], resolver: Resolver
) -> list[str]:
    """The addresses of a host, all of which are allowed. RefusedAddressError if one is not: a name that has
    both public and private addresses is not one of a model provider."""
    if is_ambiguous(host) or "%" in host:
        raise RefusedAddressError(f"the host '{host}' is not allowed: it is no plain address")
    try:
        addresses = [str(ip_address(host))]
    except ValueError:
        addresses = await resolver(host, port)
    for address in addresses:
        # A scope (`fe80::1%eth0`) exists only for addresses that are not public.
        if not is_allowed(ip_address(address.partition("%")[0]), networks):
            raise RefusedAddressError(
                f"the host '{host}' is not allowed: it is in a private network that the allow-list lacks"
            )
    return addresses


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to addresses that are allowed, and to no other. `CheckedTransport` creates it."""

    def __init__(self, networks: tuple[Network, ...], resolver: Resolver) -> None:
        self._networks, self._resolver = networks, resolver
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the interface of the library)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked_addresses(host, port, self._networks, self._resolver)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"no address of '{host}' in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"the host '{host}' is not known: {error.strerror}") from None
        failure: Exception = httpcore2.ConnectError(f"the host '{host}' has no address")
        for address in addresses:
            try:
                # An address, so nothing is resolved again.
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, path: str, *_options: Any, **_more: Any) -> Any:
        raise RefusedAddressError("sockets of this machine are not allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """A transport that connects only to allowed addresses, for the HTTP clients of models and MCP servers.

    `networks` are private networks that are allowed, such as 10.1.0.0/16."""

    def __init__(
        self,
        networks: Iterable[str] = (),
        *,
        resolver: Resolver = resolve,
        verify: Any = True,
        limits: httpx2.Limits = _LIMITS,
    ) -> None:
        super().__init__(verify=verify, limits=limits, trust_env=False)
        # The transport has no argument for the backend, which the pool takes: so the pool is made again.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context() if verify is True else verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=CheckedBackend(parse_networks(networks), resolver),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.is_redirect and "location" in response.headers:
            target = request.url.join(response.headers["location"])
            if _origin(target) != _origin(request.url):
                await response.aclose()
                raise RefusedAddressError(
                    f"'{request.url.host}' redirects to another host, which is not allowed"
                )
        return response


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
