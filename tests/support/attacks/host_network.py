"""Run in a container with the network of its host, as the account of the service: asks the service for its jobs by
connections that are made and handed on in many ways, and prints as JSON how each was answered. PORT: of the service."""

import ctypes
import json
import os
import socket
import threading
import time
from collections.abc import Callable

_PORT = int(os.environ["PORT"])
_REQUEST = f"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{_PORT}\r\nConnection: close\r\n\r\n".encode()


def connect() -> socket.socket:
    return socket.create_connection(("127.0.0.1", _PORT), timeout=20)


def answered(connection: socket.socket) -> int:
    connection.settimeout(20)
    connection.sendall(_REQUEST)
    with connection.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def directly() -> int:
    return answered(connect())


def by_a_child() -> int:
    """The parent made the connection, and has closed it."""
    connection = connect()
    return _told_by(lambda: answered(connection), after=connection.close)


def by_an_orphan() -> int:
    """In a session of its own; who made the connection has ended."""
    ours, theirs = os.pipe()

    def orphan() -> int:
        connection = connect()
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.5)  # until its parent has ended
            os.write(theirs, str(answered(connection)).encode())
            os._exit(0)
        return 0

    _told_by(orphan)
    return int(os.read(ours, 20))


def by_who_was_handed_it() -> int:
    ours, theirs = socket.socketpair()
    with connect() as connection:
        socket.send_fds(ours, [b"x"], [connection.fileno()])

    def receiver() -> int:
        _, [handle], *_ = socket.recv_fds(theirs, 1, 1)
        return answered(socket.socket(fileno=handle))

    return _told_by(receiver)


def while_nobody_holds_it() -> int:
    """It is on its way from one process to another when the request is read."""
    ours, theirs = socket.socketpair()
    with connect() as connection:
        socket.send_fds(ours, [b"x"], [connection.fileno()])
        connection.sendall(_REQUEST)
    time.sleep(2)
    _, [handle], *_ = socket.recv_fds(theirs, 1, 1)
    with socket.socket(fileno=handle) as received, received.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def by_a_process_without_its_first_thread() -> int:
    ours, theirs = os.pipe()
    if os.fork() == 0:

        def rest() -> None:
            time.sleep(0.5)
            os.write(theirs, str(directly()).encode())
            os._exit(0)

        threading.Thread(target=rest).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
    return int(os.read(ours, 20))


def by_one_that_may_not_be_looked_into() -> int:
    def hidden() -> int:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        return directly()

    return _told_by(hidden)


def by_one_that_has_ended() -> int:
    """The request is whole, and nobody is there any more when it is read. So there is no answer either: the test looks
    for the user."""
    body = json.dumps({"name": "intruder", "role": "admin"}).encode()
    head = f"POST /api/v1/users HTTP/1.1\r\nHost: 127.0.0.1:{_PORT}\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(50):
        if os.fork() == 0:
            connect().sendall(request)
            os._exit(0)
        os.wait()
    return 0


def _told_by(ask: Callable[[], int], after: Callable[[], None] = lambda: None) -> int:
    """What `ask` returns in another process; `after` is done here once that has begun."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, str(ask()).encode())
        os._exit(0)
    after()
    told = int(os.read(ours, 20))
    os.wait()
    return told


WAYS = (
    directly, by_a_child, by_an_orphan, by_who_was_handed_it, while_nobody_holds_it,
    by_a_process_without_its_first_thread, by_one_that_may_not_be_looked_into, by_one_that_has_ended,
)  # fmt: skip

if __name__ == "__main__":
    print(json.dumps({way.__name__: way() for way in WAYS}))
