"""Routes for commands in running jobs: `WS /api/v1/jobs/{id}/exec`.

Output is sent as bytes, with the number of its stream in front. Input comes as plain bytes. JSON texts say the rest
(`messages.py`)."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import NoReturn

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from schedulearn.api.edge.sockets import until_one_ends
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.interactive.terminals.job_terminals import OpenTerminal
from schedulearn.features.interactive.terminals.kept import KeptShells, Shell
from schedulearn.features.interactive.terminals.messages import (
    LONGEST,
    OpenIn,
    control_in,
    exit_out,
    open_in,
    opened_out,
    problem_out,
)
from schedulearn.features.interactive.worker import Interactive
from schedulearn.scheduler.errors import InvalidError, SchedulearnError

router = APIRouter(tags=["jobs"])

_FIRST_S = 15.0  # seconds in which a client must say what it wants
_REVOKED = 4401
"""Close code of a socket whose token was revoked; its command ends."""


class _TooLong(InvalidError):
    code = "too_large"


class _Idle(SchedulearnError):
    code = "idle"
    http_status = 408


class _TerminalEnded(Exception):
    """The client is done with its terminal."""


class _Taken(SchedulearnError):
    code = "taken"
    http_status = 409


@router.websocket("/api/v1/jobs/{job_id}/exec")
async def exec_socket(socket: WebSocket, job_id: str) -> None:
    """A command in a running job, for its user and admins. It ends with the socket, and the other way round; one that
    is to be kept is found again for a while (setting terminal_keep)."""
    await socket.accept()
    cluster = cluster_of(socket)
    kept, settings = cluster.worker(Interactive).shells, cluster.settings
    shell: Shell | None = None
    stays = False
    try:
        shell = await _shell_for(socket, job_id, kept)
        await _Session(socket, shell, settings.terminal_idle).run()
    except WebSocketDisconnect as gone:
        stays = gone.code != _REVOKED
    except _TerminalEnded:
        pass
    except _Taken as taken:
        shell = None  # the socket that has it now ends it
        await _refuse(socket, taken)
    except SchedulearnError as error:
        await _refuse(socket, error)
    finally:
        if shell is not None and stays and shell.keeps and settings.terminal_keep:
            kept.leave(shell, settings.terminal_keep)
        elif shell is not None:
            kept.end(shell)


async def _shell_for(socket: WebSocket, job_id: str, kept: KeptShells) -> Shell:
    """Return the shell that the first message asks for. Raises SchedulearnError, WebSocketDisconnect."""
    try:
        text = await asyncio.wait_for(_text(socket), _FIRST_S)
    except TimeoutError as error:
        raise InvalidError(f"send the first message, which says what to run, within {_FIRST_S:.0f} s") from error
    wish = open_in(text)
    user = actor_of(socket).name
    shell = (
        kept.find(wish.resume, job_id, user) if wish.resume is not None else await _opened(socket, job_id, user, wish)
    )
    if shell.keeps:
        kept.add(shell)
    told = opened_out(shell.opened.rank, cluster_of(socket).settings.terminal_idle, shell.id if shell.keeps else None)
    try:
        await socket.send_text(told)
    except BaseException:
        kept.end(shell)
        raise
    return shell


async def _opened(socket: WebSocket, job_id: str, user: str, wish: OpenIn) -> Shell:
    size = wish.terminal.size if wish.terminal is not None else None
    terminals = cluster_of(socket).worker(Interactive).terminals
    context = copy_context()  # so that the user is known in the thread too
    if wish.port is None:
        make = partial(context.run, terminals.open, job_id, wish.rank, wish.command, size)
    else:
        make = partial(context.run, terminals.connect, job_id, wish.rank, wish.port)
    threads = ThreadPoolExecutor(3, thread_name_prefix=f"terminal-{job_id}")
    # Its end is always awaited: a terminal that nobody holds could not be closed.
    opening = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(threads, make))
    try:
        opened = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_late)
        raise
    except BaseException:
        threads.shutdown(wait=False)
        raise
    return Shell(opened, threads, job_id, user, keeps=wish.keep)


def _close_late(opening: asyncio.Future[OpenTerminal]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _text(socket: WebSocket) -> str:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    if text is None:
        raise InvalidError("the first message must be JSON text that says what to run")
    if len(text) > LONGEST:
        raise _TooLong(f"a message has at most {LONGEST} bytes")
    return str(text)


async def _refuse(socket: WebSocket, error: SchedulearnError) -> None:
    if socket.client_state is WebSocketState.CONNECTED and socket.application_state is WebSocketState.CONNECTED:
        try:
            await socket.send_text(problem_out(error.code, error.detail))
            await socket.close(4000 + error.http_status, error.detail[:100])
        except (WebSocketDisconnect, RuntimeError):
            pass  # it has gone


class _Session:
    """Traffic between a socket and its terminal, until one side ends."""

    def __init__(self, socket: WebSocket, shell: Shell, idle_s: float) -> None:
        self._socket = socket
        self._shell = shell
        self._terminal = shell.opened.terminal
        self._threads = shell.threads
        self._idle_s = idle_s
        self._taken = shell.taken

    async def run(self) -> None:
        await until_one_ends(self._put_out(), self._take_in(), self._watch(), self._give_up())

    async def _put_out(self) -> None:
        code = await self._shell.output.show(self._socket.send_bytes)
        await self._socket.send_text(exit_out(code))
        await self._socket.close(1000)

    async def _give_up(self) -> NoReturn:
        await self._taken.wait()
        raise _Taken("this shell is open elsewhere now")

    async def _take_in(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000))
            self._shell.output.active = time.monotonic()
            data, text = message.get("bytes"), message.get("text")
            if len(data or text or "") > LONGEST:
                raise _TooLong(f"a message has at most {LONGEST} bytes")
            if data:
                await loop.run_in_executor(self._threads, self._terminal.write, data)
            elif text:
                control = control_in(text)
                if control.resize is not None:
                    await loop.run_in_executor(self._threads, self._terminal.resize, control.resize.size)
                if control.end:
                    raise _TerminalEnded
                if control.end_input:
                    await loop.run_in_executor(self._threads, self._terminal.end_input)

    async def _watch(self) -> NoReturn:
        """End an idle terminal."""
        while True:
            left = self._shell.output.active + self._idle_s - time.monotonic() if self._idle_s else 3600.0
            if left <= 0:
                raise _Idle(f"closed: nothing happened here for {self._idle_s:.0f} s (terminal_idle)")
            await asyncio.sleep(left)
