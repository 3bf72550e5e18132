"""Standby mode of a service whose database another instance uses.

It refuses requests, and waits until it can take over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.api.problems import problem_response
from schedulearn.scheduler.errors import InUseError, StoreError

log = logging.getLogger(__name__)

TRY_S = 1.0
_TRY_LATER = 1013  # close code of a socket


class Standby:
    """Middleware around the whole application, which starts once the database is free.

    `on_turn` is called then, and `on_failure` if it can't start."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.on_turn: Callable[[], None] = lambda: None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.waits_for: str | None = None
        """Reason why it waits; None: it does not wait."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif self.waits_for is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _TRY_LATER, "reason": "this service is a standby"})
        else:
            detail = f"this service is a standby, which takes over when the other one ends: {self.waits_for}"
            answer = problem_response(503, "standby", detail)
            answer.headers["retry-after"] = "2"
            await answer(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        inner = _Lifespan(self.app, scope)
        try:
            await inner.start()
        except InUseError as error:
            self._wait_for(error)
        except BaseException:
            await send({"type": "lifespan.startup.failed", "message": ""})
            raise
        await send({"type": "lifespan.startup.complete"})
        end = asyncio.ensure_future(receive())
        while self.waits_for is not None and not (await asyncio.wait([end], timeout=TRY_S))[0]:
            inner = _Lifespan(self.app, scope)
            await self._try(inner)
        await end
        await inner.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _try(self, inner: _Lifespan) -> None:
        try:
            await inner.start()
        except StoreError as error:  # in use, or the database server is unreachable
            self._wait_for(error)
        except Exception as error:
            self.on_failure(error)
        else:
            log.warning("it is this service's turn")
            self.waits_for = None
            self.on_turn()

    def _wait_for(self, error: StoreError) -> None:
        if str(error) != self.waits_for:
            log.warning("waiting for its turn: %s", error)
        self.waits_for = str(error)


class _Lifespan:
    """Lifespan of an application, from its start to its end."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._asked: asyncio.Queue[Message] = asyncio.Queue()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[None] = asyncio.ensure_future(self._run(app, scope))

    async def _run(self, app: ASGIApp, scope: Scope) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._started.set_result(None)

        await app(scope, self._asked.get, told)

    async def start(self) -> None:
        """Start the application. Raises what it raises."""
        self._asked.put_nowait({"type": "lifespan.startup"})
        await asyncio.wait([self._ended, self._started], return_when=asyncio.FIRST_COMPLETED)
        if not self._started.done():
            await self._ended

    async def stop(self) -> None:
        if not self._ended.done():
            self._asked.put_nowait({"type": "lifespan.shutdown"})
            await self._ended
