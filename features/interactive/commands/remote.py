"""Client side of commands in running jobs, `WS /api/v1/jobs/{id}/exec`.

websockets is imported when a socket is opened, not before: few commands need it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.transport import Json, connection, part, unreachable

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

OUT, ERR = 1, 2
_OPEN_S = 30.0
_PIECE = 32 << 10


class RemoteCommand:
    """A command that runs in a job until this is closed. Two threads may read and write."""

    def __init__(
        self,
        job_id: str,
        command: Sequence[str],
        *,
        rank: int | None = None,
        size: tuple[int, int] | None = None,
        port: int | None = None,
        url: str | None = None,
        token: str | None = None,
        ca: str | None = None,
    ) -> None:
        """`size`: columns and rows of a terminal; None: pipes. An empty command is a shell.
        `port`: instead of a command, a connection to this port of the container. Raises ClientError."""
        from websockets.exceptions import InvalidHandshake, InvalidStatus

        self.url, options = connection(url, token, _OPEN_S, ca)
        wish: Json = {"command": list(command), "rank": rank}
        if port is not None:
            wish["port"] = port
        if size is not None:
            wish["terminal"] = {"columns": size[0], "rows": size[1]}
        try:
            self._socket = self._connect(job_id, options)
        except InvalidStatus as error:
            raise _refused(error.response.status_code) from error
        except (OSError, InvalidHandshake) as error:
            raise unreachable(self.url, error) from error
        self._code: int | None = None
        try:
            self._socket.send(json.dumps(wish))
            self.opened: Json = self._first()["opened"]
        except BaseException:
            self.close()
            raise

    def _connect(self, job_id: str, options: Json) -> ClientConnection:
        from websockets.sync.client import connect

        address = self.url.replace("http", "ws", 1) + f"/api/v1/jobs/{part(job_id)}/exec"
        way: Json = {"ssl": options["verify"]} if address.startswith("wss:") else {}
        if not options["trust_env"]:
            way["proxy"] = None
        return connect(address, additional_headers=options["headers"], open_timeout=_OPEN_S, compression=None, **way)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield the command's output, each piece with OUT or ERR, until it ends.

        Raises ClientError if the end is not seen."""
        while True:
            message = self._receive()
            if isinstance(message, bytes):
                yield message[0], message[1:]
                continue
            told = _told(message)
            if "exit_code" in told:
                self._code = int(told["exit_code"])
                return

    @property
    def exit_code(self) -> int:
        """Exit code of a command whose output has ended."""
        if self._code is None:
            raise ClientError("the command has not ended yet")
        return self._code

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            self._send(data[start : start + _PIECE])

    def end_input(self) -> None:
        self._send(json.dumps({"end_input": True}))

    def resize(self, columns: int, rows: int) -> None:
        self._send(json.dumps({"resize": {"columns": columns, "rows": rows}}))

    def close(self) -> None:
        """End the command, if it runs."""
        self._socket.close()

    def _first(self) -> Json:
        while True:
            message = self._receive()
            if isinstance(message, str) and "opened" in (told := _told(message)):
                return told

    def _receive(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return self._socket.recv()
        except ConnectionClosed as error:
            raise UnreachableError(
                f"the connection to {self.url} broke ({error}): the command has been ended, the job goes on"
            ) from error

    def _send(self, message: str | bytes) -> None:
        """Send a message; do nothing once the connection has ended: `output` says why."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._socket.send(message)
        except ConnectionClosed:
            pass


def _told(message: str) -> Json:
    try:
        told = json.loads(message)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ClientError("what answers is not Schedulearn: check --url or SCHEDULEARN_URL")
    if "problem" in told:
        problem = told["problem"]
        raise ApiError(409, str(problem["code"]), str(problem["detail"]))
    return told


def _refused(status: int) -> ApiError:
    words = {
        401: "this service needs a token: run `schedulearn login`",
        403: "only a job's user and admins may do that",
    }
    return ApiError(status, "refused", words.get(status, f"the service answered {status}: is the address right?"))
