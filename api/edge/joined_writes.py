"""Transport that joins the head of a response with its body."""

from __future__ import annotations

import asyncio

_CONTINUE = b"HTTP/1.1 100 "
"""Start of what is sent before the head of a response."""


class JoinedWrites:
    """Transport of one response that delays the head until the body starts.

    It does so if the head gives the length of the body. Two writes are two system calls, and wake the client twice."""

    __slots__ = ("_awaits_head", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._awaits_head = True
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        head, self._head = self._head, None
        if head is not None:
            self._transport.writelines((head, data))
        elif self._awaits_head and not data.startswith(_CONTINUE):
            self._awaits_head = False
            if b"\r\ncontent-length: " in data:
                self._head = data
            else:
                self._transport.write(data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        if self._head is not None:
            self._transport.write(self._head)
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
