"""Transport of requests to an engine over a Unix socket or ssh.

Both use a real socket of this process. The SDK's own adapters are not used. Its ssh adapter needs paramiko, has no time
limits, and its streams can't be ended from another thread. Its adapter for Unix sockets keeps a pool for each path of
the API, and therefore rarely reuses a connection.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, Any, Protocol
from urllib.parse import SplitResult, urlsplit

import requests.adapters
import urllib3
import urllib3.connection

SSH_CONFIG = "SCHEDULEARN_SSH_CONFIG"
"""Variable that names a configuration file for `ssh`, instead of the user's own."""
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=10", "ServerAliveCountMax=3")

_LAST_WORDS_S = 2.0
"""Wait for ssh to end by itself, after it has closed the connection."""
_MAX_WORDS = 1 << 16


class Line(Protocol):
    """Factory and owner of one connection."""

    def dial(self, timeout: float | None) -> socket.socket: ...

    def hang_up(self) -> None:
        """Release the resources of `dial` other than the socket."""
        ...

    def why_it_broke(self) -> str:
        """Hang up a connection that the other side has ended. Returns the reason, or empty if unknown."""
        ...


class UnixLine:
    def __init__(self, path: str) -> None:
        self._path = path

    def dial(self, timeout: float | None) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout)
            connection.connect(self._path)
        except BaseException:
            connection.close()
            raise
        return connection

    def hang_up(self) -> None:
        pass

    def why_it_broke(self) -> str:
        return ""


class SshLine:
    """Connection by `ssh`, whose input and output are one end of a socket pair.

    On the host, `docker system dial-stdio` answers."""

    def __init__(self, url: SplitResult) -> None:
        options = [word for option in SSH_OPTIONS for word in ("-o", option)]
        user = ["-l", url.username] if url.username else []
        port = ["-p", str(url.port)] if url.port else []
        config = ["-F", os.environ[SSH_CONFIG]] if os.environ.get(SSH_CONFIG) else []
        self._command = ["ssh", *config, *options, *user, *port, "--", url.hostname or "", "docker system dial-stdio"]
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None  # stderr of ssh
        self._said = ""

    def dial(self, timeout: float | None) -> socket.socket:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # closed by hang_up
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._words.fileno(),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        ours.settimeout(timeout)
        return ours

    def hang_up(self) -> None:
        self._end(0.0)

    def why_it_broke(self) -> str:
        process, words = self._process, self._words
        if process is None or words is None:
            return ""
        self._end(_LAST_WORDS_S)
        return f"ssh ended with exit code {process.returncode}: {self._said or 'no output'}"

    def _end(self, patience_s: float) -> None:
        process, self._process = self._process, None
        words, self._words = self._words, None
        if process is not None:
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
        if words is not None:
            with words:
                words.seek(0)
                self._said = _last_line(words.read(_MAX_WORDS))


def _last_line(words: bytes) -> str:
    """Return the last non-empty line, which says why ssh or the remote shell failed."""
    lines = [line.strip() for line in words.decode(errors="replace").splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    return "".join(character if character.isprintable() else "?" for character in line)[:500]


class Connection(urllib3.connection.HTTPConnection):
    def __init__(self, line: Line, timeout: Any) -> None:
        super().__init__("localhost", timeout=timeout)
        self._line = line
        self._awaits_answer = False

    def connect(self) -> None:
        limit = self.timeout if isinstance(self.timeout, int | float) else None
        self.sock = self._line.dial(limit)

    def getresponse(self) -> Any:
        self._awaits_answer = True
        try:
            response = super().getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            if words := self._line.why_it_broke():
                raise ConnectionError(words) from None  # a cause would be shown instead of it
            raise
        finally:
            self._awaits_answer = False
            if self.sock is None:
                self._line.hang_up()
        return response

    def close(self) -> None:
        super().close()
        if not self._awaits_answer:  # otherwise the other side has closed it, and the reason is read later
            self._line.hang_up()


class Pool(urllib3.HTTPConnectionPool):
    def __init__(self, url: str, size: int) -> None:
        super().__init__("localhost", maxsize=size)
        self._url = urlsplit(url)

    def _new_conn(self) -> Connection:
        line: Line = SshLine(self._url) if self._url.scheme == "ssh" else UnixLine(self._url.path)
        return Connection(line, self.timeout.connect_timeout)


class Adapter(requests.adapters.HTTPAdapter):
    """HTTP adapter for an engine at a unix:// or ssh:// URL.

    It sends every request there, whatever host the request names."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__()
        self._pool = Pool(url, size)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Pool:
        return self._pool

    def get_connection(self, *_: Any, **__: Any) -> Pool:  # called by requests before 2.32
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        return request.path_url

    def close(self) -> None:
        super().close()
        self._pool.close()


class KeepAliveAdapter(requests.adapters.HTTPAdapter):
    """HTTP adapter for tcp://, with TCP keep-alive.

    It notices within a minute that a host has gone, even if the service only reads from it."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        options = [
            *urllib3.connection.HTTPConnection.default_socket_options,
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        ]
        super().init_poolmanager(*args, socket_options=options, **kwargs)
