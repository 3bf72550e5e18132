"""Asynchronous client of the API, with the methods of `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from schedulearn.api.client.calls import AsyncCalls
from schedulearn.api.client.client import Client
from schedulearn.api.client.job import Job

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a method of `Client` that reads or writes local files as one of `AsyncClient`.

    It runs in a thread, with a client of its own."""

    @wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def run() -> T:
            with self._in_thread() as client:
                return method(client, *args, **kwargs)

        return await asyncio.to_thread(run)

    return call


class AsyncClient(AsyncCalls):
    """Asynchronous client of one service.

    `url`, `token` and `ca` default to SCHEDULEARN_URL, SCHEDULEARN_TOKEN and SCHEDULEARN_CA, and without
    the first two to the service of `schedulearn login`. `ca` is a file with the certificate to trust, or
    its fingerprint. Tasks of one event loop may share a client. Methods that read or write
    local files do so in threads, which also call `on_progress`.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout_s: float = 30.0, ca: str | None = None
    ) -> None:
        """`ca`: file with the certificate to trust, or its fingerprint, `sha256:...`."""
        super().__init__(url, token, timeout_s=timeout_s, ca=ca)
        self._in_thread = partial(Client, url, token, timeout_s=timeout_s, ca=ca)

    async def all_jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        schedule: str | None = None,
        ended_since: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """Yield all jobs, or the first `limit`, newest first; pages are fetched as needed."""
        async for page in self._pages_of_jobs(
            limit, states=list(states), user=user, q=q, labels=labels, sweep=sweep, schedule=schedule,
            ended_since=ended_since,
        ):  # fmt: skip
            for item in page["items"]:
                yield Job(item)

    download = in_thread(Client.download)
    push_data = in_thread(Client.push_data)
    get_data = in_thread(Client.get_data)
    send_code = in_thread(Client.send_code)
