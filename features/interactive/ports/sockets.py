"""Forwarding of WebSockets to a job's port, message by message.

Each side has its own handshake, pings and compression.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from starlette.types import Message, Receive, Scope, Send
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from schedulearn.api.edge.sockets import until_one_ends
from schedulearn.features.interactive.ports.headers import Origin, to_browser
from schedulearn.features.interactive.ports.http import JobGone
from schedulearn.features.interactive.ports.relay import JobStream

LARGEST = 64 << 20
"""Maximum bytes of one message from a job."""
_READ = 64 << 10
_HANDSHAKE_S = 60.0
_LOOK_S = 5.0
_GOING_AWAY, _NORMAL, _POLICY, _UNEXPECTED = 1001, 1000, 1008, 1011
_NO_STATUS = 1005
_SENDABLE = {1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)}


class SocketRelay:
    """Relay between a WebSocket of a browser and its counterpart to the job."""

    def __init__(
        self, stream: JobStream, scope: Scope, receive: Receive, send: Send, idle_s: float, known: Callable[[], bool]
    ) -> None:
        self._stream, self._scope, self._receive, self._send = stream, scope, receive, send
        self._idle_s, self._known = idle_s, known
        self._active = time.monotonic()
        self._writing = asyncio.Lock()
        self._parts: list[bytes] = []
        self._kind = Opcode.TEXT

    async def run(self, headers: list[tuple[bytes, bytes]], origin: Origin) -> None:
        """Relay until one side ends. Raises JobGone if the job never answers the handshake."""
        await self._receive()  # websocket.connect
        async with asyncio.timeout(_HANDSHAKE_S):
            answer = await self._shake_hands(headers, origin)
        more = to_browser([(n.encode(), v.encode("latin-1")) for n, v in answer.headers.raw_items()], origin)
        cookies = [header for header in more if header[0] == b"set-cookie"]
        try:
            if answer.status_code != 101:
                await self._refused(answer, more)
                return
            await self._send({"type": "websocket.accept", "subprotocol": self._job.subprotocol, "headers": cookies})
            await until_one_ends(self._to_browser(), self._to_job(), self._watch())
        except OSError:
            pass  # raised by the server when the browser has gone

    async def _shake_hands(self, headers: list[tuple[bytes, bytes]], origin: Origin) -> Response:
        """Return the job's response to the handshake."""
        wanted = [Subprotocol(each) for each in self._scope["subprotocols"]] or None
        self._job = ClientProtocol(parse_uri(f"ws://localhost:{origin.port}/"), subprotocols=wanted, max_size=LARGEST)
        request = self._job.connect()
        query = self._scope["query_string"]
        request.path = (self._scope["raw_path"] + (b"?" + query if query else b"")).decode("ascii")
        for name, value in headers:
            if name != b"host":
                request.headers[name.decode("ascii")] = value.decode("latin-1")
        self._job.send_request(request)
        await self._flush()
        while True:
            data = await self._stream.read(_READ)
            self._take(data)
            events = list(self._job.events_received())
            answer = next((event for event in events if isinstance(event, Response)), None)
            if answer is not None:
                if answer.status_code == 101 and self._job.handshake_exc is not None:
                    raise JobGone(f"the job's WebSocket handshake is wrong: {self._job.handshake_exc}")
                self._early = [event for event in events if isinstance(event, Frame)]
                return answer
            if not data:
                raise JobGone("the job ended the connection in place of a WebSocket handshake")

    async def _refused(self, answer: Response, headers: list[tuple[bytes, bytes]]) -> None:
        headers = [each for each in headers if each[0] != b"content-length"]
        await self._send({"type": "websocket.http.response.start", "status": answer.status_code, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": bytes(answer.body or b"")})

    async def _to_browser(self) -> None:
        events: Iterator[object] = iter(self._early)
        while True:
            for event in events:
                if isinstance(event, Frame) and (message := self._message(event)) is not None:
                    self._active = time.monotonic()
                    if self._known():
                        await self._send(message)
            await self._flush()
            if self._job.state is not State.OPEN:
                break
            data = await self._stream.read(_READ)
            self._take(data)
            events = iter(self._job.events_received())
            if not data:
                break
        code = _sendable(self._job.close_code or _UNEXPECTED)
        await self._send({"type": "websocket.close", "code": code, "reason": self._job.close_reason or ""})

    def _message(self, frame: Frame) -> Message | None:
        """Return the message that a frame completes, if any."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._kind, self._parts = frame.opcode, []
        elif frame.opcode is not Opcode.CONT:
            return None
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return None
        data, self._parts = b"".join(self._parts), []
        if self._kind is Opcode.TEXT:
            return {"type": "websocket.send", "text": data.decode("utf-8", "replace")}
        return {"type": "websocket.send", "bytes": data}

    async def _to_job(self) -> None:
        while True:
            message = await self._receive()
            self._active = time.monotonic()
            if message["type"] == "websocket.disconnect" or not self._known():
                if self._job.state is State.OPEN:
                    self._job.send_close(_sendable(message.get("code", _GOING_AWAY)))
                    await self._flush()
                return
            if self._job.state is not State.OPEN:
                return
            text = message.get("text")
            if text is not None:
                self._job.send_text(text.encode())
            else:
                self._job.send_binary(message.get("bytes") or b"")
            await self._flush()

    async def _watch(self) -> None:
        """End a socket that is idle, or whose user is no longer known."""
        while self._known():
            if self._idle_s and time.monotonic() - self._active > self._idle_s:
                why = f"nothing happened here for {self._idle_s:.0f} s"
                await self._send({"type": "websocket.close", "code": _GOING_AWAY, "reason": why})
                return
            await asyncio.sleep(_LOOK_S)
        await self._send({"type": "websocket.close", "code": _POLICY, "reason": "you are not logged in any more"})
        return

    def _take(self, data: bytes) -> None:
        if data:
            self._job.receive_data(data)
        else:
            self._job.receive_eof()

    async def _flush(self) -> None:
        async with self._writing:
            for piece in self._job.data_to_send():
                if piece:
                    await self._stream.write(piece)


def _sendable(code: int) -> int:
    """Return a code allowed in a close frame, for one that says how a socket ended."""
    return code if code in _SENDABLE else _NORMAL if code == _NO_STATUS else _GOING_AWAY
