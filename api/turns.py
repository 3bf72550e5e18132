"""Concurrency limits of expensive requests: one per user, and few in total."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request

_COMPUTING = 2


class Turns:
    """Turns of expensive requests. Requests wait without a thread; a client that has gone gets no turn."""

    def __init__(self) -> None:
        self._own: dict[tuple[str, str], asyncio.Lock] = {}
        self._asking: Counter[tuple[str, str]] = Counter()
        self._large = asyncio.Semaphore(1)
        self._computing = asyncio.Semaphore(_COMPUTING)

    @asynccontextmanager
    async def large(self, request: Request) -> AsyncIterator[None]:
        """Hold the turn for a body that may be large."""
        async with self._turn(request, "large", self._large):
            yield

    @asynccontextmanager
    async def computing(self, request: Request) -> AsyncIterator[None]:
        """Hold a turn for a request that simulates or fits a model."""
        async with self._turn(request, "computing", self._computing):
            yield

    @asynccontextmanager
    async def _turn(self, request: Request, kind: str, of_all: asyncio.Semaphore) -> AsyncIterator[None]:
        actor = request.state.actor
        asks = (kind, actor.name if actor is not None else "")
        own = self._own.setdefault(asks, asyncio.Lock())
        self._asking[asks] += 1
        try:
            async with own, of_all:
                if await request.is_disconnected():
                    raise HTTPException(408, "the client has closed the connection")
                yield
        finally:
            self._asking[asks] -= 1
            if not self._asking[asks]:
                del self._asking[asks], self._own[asks]


def turns_of(request: Request) -> Turns:
    turns: Turns = request.app.state.turns
    return turns


async def _computing(request: Request) -> AsyncIterator[None]:
    async with turns_of(request).computing(request):
        yield


COMPUTING = [Depends(_computing, scope="function")]
"""Dependencies of a route that computes for long."""
