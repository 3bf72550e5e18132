"""forward: a port of a running job on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import click

from schedulearn.api.cli.common import INTERRUPTED, CliSession, Command, clean, pass_session
from schedulearn.api.client.client import ClientError
from schedulearn.api.client.transport import base_url, connection
from schedulearn.features.interactive.commands.remote import OUT, RemoteCommand

_AT_ONCE = 32
_READ = 32 << 10


@click.command(cls=Command)
@click.argument("job", metavar="JOB")
@click.argument("port", metavar="[LOCAL:]PORT")
@click.option("--rank", type=click.IntRange(0), help="Container of a job that has several.  [default: the first]")
@pass_session
def forward(session: CliSession, job: str, port: str, rank: int | None) -> int:
    """Forward a local port to a port of a running job.

    It runs until Ctrl-C. Use it for TensorBoard, a notebook, or anything else that speaks TCP, including WebSockets.

    It reaches servers on the container's loopback address. LOCAL is the port on this machine: by default the same
    number, 0 for any free one. It listens only on 127.0.0.1. Other accounts of this machine can connect to it. If you
    share the machine, protect the server with a password.

    \b
    Examples:
      schedulearn forward last 6006
      schedulearn forward 3f9 8080:80
    """
    local, there = _ports(port)
    job_id = session.job_id(job)
    with forwarded(session, job_id, there, local=local, rank=rank) as address:
        click.echo(f"{address} is port {there} of job {job_id}, until Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


@contextlib.contextmanager
def forwarded(
    session: CliSession, job_id: str, port: int, *, local: int | None = None, rank: int | None = None
) -> Iterator[str]:
    """The address here of a port of a job, as long as the context lasts. `local`: None: the same port, or any free one
    where that is taken. Raises ClientError where there is no such job, or it does not run."""
    session.client.processes(job_id, rank)  # tells at once what can't be
    listener = _listen(port if local is None else local, any_other=local is None)
    doors = _Doors(lambda: RemoteCommand(job_id, (), rank=rank, port=port, url=session.url, ca=session.ca))
    thread = threading.Thread(target=doors.serve, args=(listener,), daemon=True)
    thread.start()
    try:
        yield f"http://{_name_here(session)}:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        doors.close()
        thread.join(5)


class _Doors:
    """Local connections, each with one of its own to the job."""

    def __init__(self, connect: Callable[[], RemoteCommand]) -> None:
        self._connect = connect
        self._room = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def serve(self, listener: socket.socket) -> None:
        while True:
            self._room.acquire()
            try:
                here, _ = listener.accept()
            except OSError:
                return  # closed
            with self._lock:
                self._open.add(here)
            threading.Thread(target=self._pass, args=(here,), daemon=True).start()

    def close(self) -> None:
        with self._lock:
            for here in self._open:
                with contextlib.suppress(OSError):
                    here.shutdown(socket.SHUT_RDWR)

    def _pass(self, here: socket.socket) -> None:
        try:
            with here, self._connect() as there:
                threading.Thread(target=_send, args=(here, there), daemon=True).start()
                said = b""
                for stream, data in there.output():
                    if stream == OUT:
                        here.sendall(data)
                    else:
                        said += data[:1000]
                if there.exit_code:
                    _tell(said.decode(errors="replace").removeprefix("connected"))
        except ClientError as error:
            _tell(str(error))
        except OSError:
            pass  # whoever connected has gone
        finally:
            with self._lock:
                self._open.discard(here)
            self._room.release()


def _send(here: socket.socket, there: RemoteCommand) -> None:
    try:
        while data := here.recv(_READ):
            there.write(data)
        there.end_input()
    except OSError:
        there.close()


def _tell(words: str) -> None:
    click.echo(f"schedulearn: {clean(words.strip())}", err=True)


def _listen(port: int, *, any_other: bool) -> socket.socket:
    """Raises ClientError."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            if not any_other:
                raise
            listener.bind(("127.0.0.1", 0))
        listener.listen(_AT_ONCE)
    except OSError as error:
        listener.close()
        raise ClientError(
            f"can't listen on 127.0.0.1 port {port}: {error.strerror}; choose another, as 0:PORT"
        ) from error
    return listener


def _name_here(session: CliSession) -> str:
    """A name of this machine that is not the service's own, so that no browser sends the service's cookie there."""
    host = urlsplit(base_url(connection(session.url, None, 1.0, session.ca)[0])).hostname
    return "127.0.0.1" if host == "localhost" else "localhost"


def _ports(given: str) -> tuple[int | None, int]:
    local, colon, there = given.rpartition(":")
    try:
        numbers = int(local) if colon else None, int(there)
    except ValueError:
        raise click.BadParameter(f"{clean(given)!r} is not PORT or LOCAL:PORT", param_hint="PORT") from None
    if not 0 <= (numbers[0] or 0) <= 65_535 or not 1 <= numbers[1] <= 65_535:
        raise click.BadParameter("a port is a number from 1 to 65535", param_hint="PORT")
    return numbers
