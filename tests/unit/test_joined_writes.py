"""An answer goes out in one write where it can, and never later than it could without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from schedulearn.api.edge.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Written(asyncio.Transport):
    """What reaches the connection, a system call each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([HEAD, b"content"], [HEAD + b"content"]),
        ([HEAD, b"con", b"tent"], [HEAD + b"con", b"tent"]),
        ([HEAD, b""], [HEAD]),
        ([CONTINUE, HEAD, b"content"], [CONTINUE, HEAD + b"content"]),
        ([STREAM], [STREAM]),
        ([STREAM, HEAD], [STREAM, HEAD]),  # the second is text of a log, say
        ([HEAD, HEAD, HEAD], [HEAD + HEAD, HEAD]),
    ],
)
def test_a_head_waits_only_for_a_body_that_comes(given: list[bytes], expected: list[bytes]) -> None:
    connection = Written()
    joined = JoinedWrites(connection)
    for piece in given:
        joined.write(piece)
    assert connection.calls == expected


def test_a_head_without_the_body_that_it_tells_of_is_sent_before_the_end() -> None:
    connection = Written()
    joined = JoinedWrites(connection)
    joined.write(HEAD)
    joined.close()
    assert (connection.calls, connection.closed) == ([HEAD], True)
