"""The generator of the synchronous client."""

from __future__ import annotations

import runpy
from pathlib import Path

from schedulearn import clients, sync_clients
from schedulearn.api.client import calls, sync_calls

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/unasync.py"))

CODE = '''\
import asyncio

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.features.usage.client import AsyncUsageCalls


class AsyncOne(AsyncTransport):
    """Text stays: await AsyncOne."""

    async def pause(self) -> AsyncIterator[str]:
        async with self._http.stream("GET", "async") as response:
            async for text in response.aiter_text():
                await asyncio.sleep(len(await self.show(text)))  # await
                yield f"{text} await"
'''

MADE = '''\
import time

from schedulearn.api.client.sync_calls import Transport
from schedulearn.features.usage.sync_client import UsageCalls


class One(Transport):
    """Text stays: await AsyncOne."""

    def pause(self) -> Iterator[str]:
        with self._http.stream("GET", "async") as response:
            for text in response.iter_text():
                time.sleep(len(self.show(text)))  # await
                yield f"{text} await"
'''


def test_code_loses_its_awaits_and_text_keeps_them() -> None:
    assert SCRIPT["synchronous"](CODE) == MADE


def test_each_class_of_a_source_has_its_twin() -> None:
    for source, made in ((calls, sync_calls), (clients, sync_clients)):
        names = {name for name, of in vars(source).items() if isinstance(of, type) and of.__module__ == source.__name__}
        twins = {name for name, of in vars(made).items() if isinstance(of, type) and of.__module__ == made.__name__}
        assert {name.removeprefix("Async") for name in names} == twins != names
