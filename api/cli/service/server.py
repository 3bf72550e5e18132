"""Process of the service, under uvicorn.

It prints one clear line when it is ready, and one when it can't start. It ends promptly.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.access.credentials import Credentials
from schedulearn.api.access.guard import stored_token
from schedulearn.api.app import create_app
from schedulearn.api.cli.service.announcement import Announcement
from schedulearn.api.edge.connections import Connections, bounded, limits_for, raise_file_limit
from schedulearn.api.edge.standby import Standby
from schedulearn.api.feature import Feature
from schedulearn.api.reach import bridge_address, needs_bridge_listener
from schedulearn.api.settings import Settings, load_settings
from schedulearn.api.stream import Broadcaster
from schedulearn.api.tls.listener import open_tls_listeners
from schedulearn.api.tls.plain import OnlyReports
from schedulearn.scheduler.core.planning.command_masking import hide_in_text
from schedulearn.scheduler.errors import InvalidError, SchedulearnError
from schedulearn.scheduler.private_files import restrict_umask

if TYPE_CHECKING:
    from schedulearn.api.tls.certificates import Certificate

SWITCH_S = 0.0005
"""Seconds between switches of threads.

The scheduling loop and the database's writer compute in their own threads. With Python's default, a response could
wait 5 ms for its turn."""
_DRAIN_S = 1  # for responses in progress, after the streams have ended
_KEEP_ALIVE_S = 20  # clients keep idle connections for 5 s; closing them as early would reset new requests
_LOG = logging.getLogger("uvicorn.error")
_DEADLINE_S = 5.0  # then the process exits: all that matters is on disk, and a stop must not hang


class _WithoutSecrets(logging.Formatter):
    """Formatter that hides secrets: the text of an engine or an error may hold a command or a URL."""

    def __init__(self, formatter: logging.Formatter | None) -> None:
        super().__init__()
        self._formatter = formatter or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return hide_in_text(self._formatter.format(record))


def run(
    config: Path | None, flags: Mapping[str, object], features: Sequence[Feature], *, verbose: bool, as_json: bool
) -> int:
    """Serve until SIGINT or SIGTERM and return 0; return 1, with one line on stderr, if the service can't start."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_WithoutSecrets(handler.formatter))
    restrict_umask()
    try:
        settings = load_settings(config, **flags)
        # Where people sign in, a proxy on this machine must not pass for the account that runs the service.
        made_token = settings.token is None and (not settings.loopback or settings.has_sign_in)
        is_first = made_token and not (settings.data / "token").exists()
        if made_token:
            settings = settings.model_copy(update={"token": stored_token(settings.data)})
        certificate = _certificate(settings)
        listener = _bind(settings.host, settings.port)
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    except (SchedulearnError, OSError) as error:
        return _refuse(error)
    sys.setswitchinterval(SWITCH_S)
    listeners = [listener, *_bridge_listener(settings)]
    broadcaster, credentials = Broadcaster(), Credentials(settings.token)
    for_workers = certificate.for_workers if certificate is not None else None
    made = create_app(
        settings, broadcaster=broadcaster, credentials=credentials, report_certificate=for_workers, features=features
    )
    standby = Standby(made) if settings.shares_database else None
    made = standby or made
    app = _Startup(made if certificate is None else OnlyReports(made))
    login = credentials.login_link() if is_first else None
    announcement = Announcement(settings, made_token=made_token, login=login, certificate=certificate)
    server = _Server(app, broadcaster, announcement, standby, verbose=verbose, as_json=as_json)
    try:
        server.run(sockets=listeners)
    except SystemExit:  # uvicorn raises it if the application did not start
        if app.failure is None:
            raise
    finally:
        for each in listeners:
            each.close()
    if app.failure is not None:
        return _refuse(app.failure)
    if not as_json:
        _tell("Stopped. Running jobs continue.")
    return 0


def leave_in_peace() -> None:
    """Set up the garbage collector after the start of the service.

    It never visits the objects of the start again, since they stay. No request is answered during a collection, which
    takes 0.2 s if everything is imported. There is no collection before, which would find 2,000 of 250,000 objects.
    Later objects are visited less often: a decision makes and drops thousands of values, hardly any in cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 2, 200)
    gc.enable()


def _certificate(settings: Settings) -> Certificate | None:
    if not settings.has_tls and settings.tls_cert is None and settings.tls_key is None:
        return None
    from schedulearn.api.tls.certificates import certificate_for  # 10 MB that only TLS needs

    return certificate_for(settings)


def _bridge_listener(settings: Settings) -> list[socket.socket]:
    """Return a listener for reports of job containers, if the service listens on loopback.

    The guard refuses all other requests to it."""
    address = bridge_address() if needs_bridge_listener(settings) else None
    if address is None:
        return []
    try:
        return [_bind(address, settings.port)]
    except InvalidError as error:
        logging.getLogger(__name__).warning("jobs in containers can't report: %s", error)
        return []


def _refuse(error: BaseException) -> int:
    if not isinstance(error, (SchedulearnError, OSError)):
        logging.getLogger(__name__).error("the service could not start", exc_info=error)
        return 1
    click.echo(f"Error: {error}", err=True)
    return 1


class _Startup:
    """Wrapper of the application; `failure` is the error that it raised at its start or stop."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.failure: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, receive, send)
        except BaseException as error:
            self.failure = error
            raise


class _Server(uvicorn.Server):
    """Server that ends streams first when it stops. A second signal ends the process at once.

    uvicorn itself waits for the end of streams before it stops the application, which would end them."""

    def __init__(
        self,
        app: _Startup,
        broadcaster: Broadcaster,
        announcement: Announcement,
        standby: Standby | None,
        *,
        verbose: bool,
        as_json: bool,
    ) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            lifespan="on",
            log_config=None,
            log_level="info" if verbose else "warning",
            access_log=verbose,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_DRAIN_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._bounds = Connections(limits_for(raise_file_limit()))
        super().__init__(bounded(config, self._bounds))
        self._broadcaster = broadcaster
        self._announcement = announcement
        self._as_json = as_json
        self._app = app
        self._standby = standby
        if standby is not None:
            standby.on_turn, standby.on_failure = self._announce, self._fail

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with _level_restored():
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        with _level_restored():
            _LOG.setLevel(logging.CRITICAL)  # `run` reports an error in one line
            certificate = self._announcement.certificate
            if certificate is None:
                await super().startup(sockets)
            else:
                await super().startup([])
                open_tls_listeners(self, sockets or [], certificate, self._bounds)
        leave_in_peace()
        if self._standby is None or self._standby.waits_for is None:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        deadline = threading.Timer(_DEADLINE_S, os._exit, [0])
        deadline.daemon = True
        deadline.start()
        self._broadcaster.close()
        _LOG.setLevel(logging.CRITICAL)  # no errors of streams that are cut; `run` restores the level
        await super().shutdown(sockets)
        deadline.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True

    def _fail(self, error: BaseException) -> None:
        self._app.failure = error
        self.should_exit = True

    def _announce(self) -> None:
        told = self._announcement
        runtime, simulated, unknown = (self.lifespan.state[key] for key in ("runtime", "simulated_gpus", "unknown"))
        if self._as_json:
            _tell(told.as_json(runtime, simulated))
        else:
            _tell(*told.lines(socket.gethostname(), runtime, simulated, unknown))


def _tell(*lines: str) -> None:
    try:
        print(*lines, sep="\n", flush=True)  # noqa: T201
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nobody reads it; that is no reason to stop


@contextmanager
def _level_restored() -> Iterator[None]:
    before = _LOG.level
    try:
        yield
    finally:
        _LOG.setLevel(before)


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet: no client connects before the service is ready.

    Raises InvalidError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidError(f"can't listen on {host!r}: {error}", field="host") from error
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        what = {
            errno.EADDRINUSE: "another program listens there; stop it, or choose another --port (0: any free one)",
            errno.EACCES: "ports below 1024 are for root; choose another --port",
            errno.EADDRNOTAVAIL: "this machine has no such address; choose another --host",
        }.get(error.errno or 0, str(error))
        raise InvalidError(f"can't listen on {host} port {port}: {what}", field="port") from error
    listener.set_inheritable(False)
    return listener
