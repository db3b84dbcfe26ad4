"""The connections of a server: how many there may be, and how long a client may take to say what it wants.

A connection is *silent* while it has no request in progress: its client has not sent a complete head yet, or
has its last response and may send another request. A silent connection costs a descriptor and some kilobytes,
and anybody can open thousands of them. So there is a limit, in all and for each address:

    beyond it     the connection that has been silent for longest is closed for a new one. A client that sends
                  its request at once gets an answer, however many others are silent. Only if all of them have
                  requests in progress, the new one is refused, with 503.
    this machine  is not limited as an address: a proxy connects from there, for all of its clients
    descriptors   at most half of those that the process may have are connections; the others are for the
                  store, for models and for tools

`sweep` closes what takes too long: a head, a body, the handshake of TLS, or a client that does not read its
response. A response that is read has no limit of time: streams of events last as long as their runs.

uvicorn has none of this, so its protocol is extended here. TLS is a layer in front of it (`TlsConnection`),
and not that of `create_server`, whose handshakes nobody could count or close.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from roundel.server.logs import RepeatFilter
from roundel.server.security import LOOPBACK, MAX_BODY
from roundel.server.sign_in import network_of

KEEP_ALIVE_SECONDS = 15
"""How long a connection may be idle after a response."""
HEAD_SECONDS = 30.0
"""How long after the connection or the last response the head of a request has to be complete."""
BODY_SECONDS = 60.0
"""How long a body may take from the end of the head."""
HANDSHAKE_SECONDS = 10
END_SECONDS = 60.0
"""How long a client may take to read what is left when its connection is closed."""
STALL_SECONDS = 120.0
"""How long a client may leave a response unread that waits for it, such as a stream of events. A slow client,
which takes some kilobytes in each second, is not meant."""
MAX_UNREAD = 4 * MAX_BODY
"""Bytes that are received and dropped after a response that did not wait for the body."""
MAX_DESCRIPTORS = 65_536
"""More are not asked for: some systems allow a billion, and some programs try to close them all."""
MIN_CONNECTIONS = 8
REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
logger = logging.getLogger("roundel.connections")
logger.addFilter(RepeatFilter())


class Connections:
    """The connections of one server."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self.most, self._most_per_address = most, most_per_address
        self._all: set[Connection] = set()
        self._silent: dict[Connection, None] = {}
        """The longest silent first."""
        self._addresses: dict[str, _Address] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> bool:
        """Counts a new connection, which is silent; False if there is no place for it."""
        address = self._addresses.get(connection.address) or _Address()
        if connection.address not in LOOPBACK and address.count >= self._most_per_address:
            has_place = self._drop_first(address.silent)
        else:
            has_place = len(self._all) < self.most or self._drop_first(self._silent)
        if not has_place:
            logger.warning("too many connections: all have requests in progress, new ones are refused")
            return False
        self._addresses[connection.address] = address
        self._all.add(connection)
        address.count += 1
        self.note(connection, is_silent=True)
        return True

    def _drop_first(self, silent: dict[Connection, None]) -> bool:
        connection = next(iter(silent), None)
        if connection is None:
            return False
        self.remove(connection)
        connection.abort()
        return True

    def note(self, connection: Connection, *, is_silent: bool) -> None:
        """Notes that a connection has become silent, or has a request."""
        if connection not in self._all:
            return
        for known in (self._silent, self._addresses[connection.address].silent):
            known.pop(connection, None)
            if is_silent:
                known[connection] = None

    def remove(self, connection: Connection) -> None:
        if connection in self._all:
            self.note(connection, is_silent=False)
            self._all.discard(connection)
            address = self._addresses[connection.address]
            address.count -= 1
            if not address.count:
                del self._addresses[connection.address]

    def sweep(self, now: float) -> None:
        """Closes the connections that take too long; every second or so."""
        for connection in [one for one in self._all if one.is_overdue(now)]:
            self.remove(connection)
            connection.abort()

    def end_handshakes(self) -> None:
        """Closes what is no connection for uvicorn yet, when the server shuts down."""
        for connection in [one for one in self._all if one.is_in_handshake]:
            self.remove(connection)
            connection.abort()


class _Address:
    """The connections of one address."""

    def __init__(self) -> None:
        self.count = 0
        self.silent: dict[Connection, None] = {}


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1, with limits."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self._socket: asyncio.Transport | None = None
        """The transport below TLS, if there is TLS."""
        self._is_silent, self._since = True, self.loop.time()
        self._closing_since: float | None = None
        self._stalled_since: float | None = None
        self._last_cycle: Any = None
        self._unread = 0
        self.address = ""

    def enter(self, transport: asyncio.Transport) -> bool:
        """Takes a place among the connections; False if there is none."""
        self._socket = transport
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else ""
        self.address = host if host in LOOPBACK else network_of(host)
        return self._connections.add(self)

    def leave(self) -> None:
        self._connections.remove(self)

    def abort(self) -> None:
        """Closes the connection at once, whatever is on its way."""
        if self._socket is not None:
            self._socket.abort()

    @property
    def is_in_handshake(self) -> bool:
        return self.transport is None

    def is_overdue(self, now: float) -> bool:
        elapsed = now - self._since
        if self.is_in_handshake:
            return elapsed > HANDSHAKE_SECONDS
        if self.transport.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            return now - self._closing_since > END_SECONDS
        if self._stalled_since is not None and now - self._stalled_since > STALL_SECONDS:
            return True
        if self._is_silent:
            return elapsed > HEAD_SECONDS
        return self.cycle.more_body and elapsed > BODY_SECONDS

    # What asyncio and uvicorn call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._socket is None and not self.enter(transport):
            transport.write(REFUSED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_silent:
            self._unread += len(data)
            if self._unread > MAX_UNREAD:
                self.abort()
                return
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def _update(self) -> None:
        cycle: Any = self.cycle  # uvicorn does not say that there is none before the first request
        is_silent = cycle is None or cycle.response_complete
        if is_silent != self._is_silent or cycle is not self._last_cycle:
            self._is_silent, self._last_cycle = is_silent, cycle
            self._since, self._unread = self.loop.time(), 0
            self._connections.note(self, is_silent=is_silent)


class TlsConnection(SSLProtocol):
    """The TLS in front of a connection, which counts from its first byte on."""

    def __init__(self, connection: Connection, context: ssl.SSLContext) -> None:
        super().__init__(
            *(connection.loop, connection, context, None),  # type: ignore[arg-type]
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        self._inner = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_place = self._inner.enter(transport)
        super().connection_made(transport)
        if not has_place:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._inner.leave()  # an inner connection that never had a handshake is not told
        super().connection_lost(exc)


def protocol_factory(
    connections: Connections, context: ssl.SSLContext | None
) -> Callable[..., asyncio.BaseProtocol]:
    """What uvicorn creates for each connection."""

    def create(**options: Any) -> asyncio.BaseProtocol:
        connection = Connection(connections, **options)
        return connection if context is None else TlsConnection(connection, context)

    return create


# Descriptors.


def raise_descriptor_limit() -> int:
    """Allows this process as many descriptors as it may have, within reason; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connection_limit(wanted: int, descriptors: int) -> int:
    """The most connections of a process with so many descriptors."""
    return min(wanted, max(MIN_CONNECTIONS, descriptors // 2))


def accept_batch(most: int) -> int:
    """How many connections are accepted before one of them can be closed again, so that a burst does not take
    the descriptors that the connections must not have."""
    return max(1, min(64, most // 8))


def handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs that no connection can be accepted, in one line; asyncio tries again each second, and would log a
    traceback each time."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES and "socket" in context:
        logger.error("cannot accept connections: %s; lower --max-connections", error.strerror)
    else:
        loop.default_exception_handler(context)
