"""A Unix socket in front of a Docker Engine, between which and the service everything can go wrong.

Requests that change something are numbered. Each connection carries one request, so that no answer is taken for that
of another one."""

from __future__ import annotations

import random
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LATE_S = 1.0
"""So much later a request takes effect, or its answer comes. The service waits longer before it counts on one that did
not (`SETTLE_S` of its loop)."""
TROUBLES = ("refused", "unheard", "twice", "late", "cut")
_LONGEST = 1 << 20


@dataclass
class Request:
    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def is_stream(self) -> bool:
        """Its answer comes bit by bit, or the connection becomes something else."""
        return b"\nupgrade:" in self.head.lower() or any(
            word in self.path for word in ("/events", "/images/create", "/build", "follow=", "stream=", "/attach")
        )

    @property
    def is_effect(self) -> bool:
        """It changes containers, so that it matters when the service dies, and whether it is asked twice."""
        return self.method in ("POST", "DELETE", "PUT") and "/containers/" in self.path and not self.is_stream

    def alone(self, version: bytes = b"HTTP/1.1") -> bytes:
        """The request for a connection of its own."""
        first, *lines = self.head.split(b"\r\n")
        if b"\nupgrade:" in self.head.lower():
            return self.head + self.body
        kept = [line for line in lines if line and not line.lower().startswith(b"connection:")]
        start = first.rpartition(b" ")[0] + b" " + version
        return b"\r\n".join([start, *kept, b"Connection: close", b"", b""]) + self.body


@dataclass
class EngineProxy:
    """`with EngineProxy(path, engine, dice):` the socket is there. `kill` ends the service at once."""

    path: Path
    engine: Path
    dice: random.Random
    kill: Callable[[], None] = lambda: None
    note: Callable[[str], None] = lambda what: None
    trouble: float = 0.0
    """The chance that a request goes wrong."""
    events: str = ""
    """`dropped` or `doubled`."""
    errors: dict[str, int] = field(default_factory=dict)
    """`METHOD regular expression` of paths -> status with which the engine seems to answer these."""
    dead: str = ""
    """Id of a container that the engine shows as dead."""
    count: int = 0
    """Requests that changed something, so far."""
    kill_at: dict[int, str] = field(default_factory=dict)
    """Number -> when the service is killed: `before` the request, while it is `under way`, or `after` its answer."""
    _connections: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: threading.Event = field(default_factory=threading.Event)
    _is_cut: bool = False

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def __enter__(self) -> EngineProxy:
        self._open.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(256)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._open.set()
        self.cut()

    def pause(self) -> None:
        """It takes connections and answers nothing, as an engine that is stopped."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """Breaks all connections, and takes no more until `mend`."""
        self._is_cut = True
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def heal(self) -> None:
        self.trouble, self.events = 0.0, ""
        self.kill_at.clear()
        self.mend()
        self.resume()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._connections.add(client)
        try:
            with client:
                if not self._is_cut and (request := _read(client)) is not None:
                    self._open.wait()
                    self._answer(client, request)
        except OSError:
            pass  # one side has gone
        finally:
            with self._lock:
                self._connections.discard(client)

    def _answer(self, client: socket.socket, request: Request) -> None:
        for pattern, status in self.errors.items():
            if re.search(pattern, f"{request.method} {request.path}"):
                client.sendall(_problem("it is damaged", status))
                return
        if request.is_stream:
            self._pass_on(client, request)
            return
        how = self._how(request)
        if how == "cut":
            return
        if how == "refused":
            client.sendall(_problem("the engine is busy"))
            return
        if how == "late":
            time.sleep(self.dice.uniform(0, LATE_S))
        if not request.is_effect:
            client.sendall(self._ask(request))
            return
        client.sendall(self._change(client, request, how))

    def _how(self, request: Request) -> str:
        """What goes wrong with it."""
        with self._lock:
            if self.dice.random() >= self.trouble:
                return ""
            how = self.dice.choice(TROUBLES)
        self.note(f"{how}: {request.method} {request.path.partition('?')[0]}")
        return how if request.is_effect or how in ("refused", "cut", "late") else ""

    def _change(self, client: socket.socket, request: Request, how: str) -> bytes:
        with self._lock:
            self.count += 1
            when = self.kill_at.pop(self.count, "")
        if when:
            self.note(f"killed {when} {self.count}: {request.method} {request.path.partition('?')[0]}")
        if when == "before":
            self.kill()
            return b""
        if when == "under way":
            self.kill()
        if how == "twice":
            self._ask(request)
        answer = self._ask(request)
        if when == "after":
            self.kill()
            return b""
        return _problem("the connection to the engine broke") if how == "unheard" else answer

    def _ask(self, request: Request) -> bytes:
        """The whole answer of the engine."""
        with self._dial() as upstream:
            upstream.sendall(request.alone())
            return self._with_dead(b"".join(iter(lambda: upstream.recv(1 << 16), b"")))

    def _with_dead(self, answer: bytes) -> bytes:
        """Of the same length, in lists and in what is told of the one container."""
        at = answer.find(self.dead.encode()) if self.dead else -1
        if at < 0:
            return answer

        def die(match: re.Match[bytes]) -> bytes:
            return (match[1] + b'"dead"').ljust(len(match[0]))

        return answer[:at] + re.sub(rb'("(?:State|Status)":)"[a-z]+"', die, answer[at:], count=1)

    def _dial(self) -> socket.socket:
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(str(self.engine))
        return upstream

    def _pass_on(self, client: socket.socket, request: Request) -> None:
        """Bytes both ways, until one side ends."""
        if "/events" in request.path:
            self._pass_on_events(client, request)
            return
        with self._dial() as upstream:
            upstream.sendall(request.alone())
            ends = {client: upstream, upstream: client}
            while True:
                for end in select.select([*ends], [], [])[0]:
                    self._open.wait()
                    if not (data := end.recv(1 << 16)):
                        return
                    ends[end].sendall(data)

    def _pass_on_events(self, client: socket.socket, request: Request) -> None:
        """Each is a line: HTTP/1.0 knows no chunks."""
        with self._dial() as upstream, upstream.makefile("rb") as lines:
            upstream.sendall(request.alone(b"HTTP/1.0"))
            self._watch(client, upstream)
            begun = False
            for line in lines:
                self._open.wait()
                client.sendall(line * ({"dropped": 0, "doubled": 2}.get(self.events, 1) if begun else 1))
                begun = begun or line == b"\r\n"

    def _watch(self, client: socket.socket, upstream: socket.socket) -> None:
        """Ends the stream of the engine once nobody listens to it."""

        def wait() -> None:
            with suppress(OSError):
                client.recv(1)  # nothing comes but the end
            with suppress(OSError):
                upstream.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=wait, daemon=True).start()


def _read(client: socket.socket) -> Request | None:
    """A request with its body; None where the client hangs up."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := client.recv(1 << 16)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    length = int(lengths[0]) if lengths else 0
    while len(body) < min(length, _LONGEST):
        if not (more := client.recv(1 << 16)):
            return None
        body += more
    return Request(head + b"\r\n\r\n", body)


def _problem(words: str, status: int = 500) -> bytes:
    body = f'{{"message": "{words}"}}'.encode()
    head = f"HTTP/1.1 {status} Error\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
