"""Byte stream to a port of a job's container, over a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import httpcore

from schedulearn.features.interactive.terminals.job_terminals import OpenTerminal
from schedulearn.scheduler.runtimes.terminals.contract import OUT

_CONNECTED = b"connected"
_PIECES = 16  # maximum pieces of 64 KiB that wait for the reader
_CONNECT_S = 30.0
_WORDS = 1000

Connect = Callable[[], OpenTerminal]


class JobStream(httpcore.AsyncNetworkStream):
    """Bytes to and from a port. Three threads wait for the engine, as for any terminal."""

    def __init__(self, opened: OpenTerminal, threads: ThreadPoolExecutor) -> None:
        self._opened = opened
        self._threads = threads
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_PIECES)
        self._rest = b""
        self._ended = False
        self._closed = False
        self._said = b""
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pump = asyncio.create_task(self._read_all())

    @classmethod
    async def open(cls, connect: Connect) -> JobStream:
        """Open a stream.

        Raises httpcore.ConnectError if nothing listens, and what `connect` raises."""
        threads = ThreadPoolExecutor(3, thread_name_prefix="port")
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(threads, copy_context().run, connect)
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: _close_late(done, threads))
            raise
        except BaseException:
            threads.shutdown(wait=False)
            raise
        stream = cls(opened, threads)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await stream._connected
        except TimeoutError as error:
            stream.close()
            raise httpcore.ConnectTimeout("the host does not connect to the port in time") from error
        except BaseException:
            stream.close()
            raise
        return stream

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (piece := await loop.run_in_executor(self._threads, self._opened.terminal.read)) is not None:
                kind, data = piece
                if kind == OUT:
                    await self._pieces.put(data)
                else:
                    self._said = (self._said + data)[:_WORDS]
                if not self._connected.done() and (kind == OUT or self._said.startswith(_CONNECTED)):
                    self._connected.set_result(None)
        finally:
            self._ended = True
            if not self._connected.done():
                why = self._said.decode(errors="replace").strip() or "the connection to the job ended at once"
                self._connected.set_exception(httpcore.ConnectError(why))
                self._connected.exception()  # marks it as retrieved: the opener may have gone
            if self._pieces.empty():
                self._pieces.put_nowait(b"")  # wakes the reader

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; none: the stream has ended."""
        if not self._rest and not (self._ended and self._pieces.empty()):
            try:
                async with asyncio.timeout(timeout):
                    self._rest = await self._pieces.get()
            except TimeoutError as error:
                raise httpcore.ReadTimeout(f"the job sent nothing for {timeout:.0f} s") from error
        data, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._ended or self._closed:
            raise httpcore.WriteError("the connection to the job has ended")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                await loop.run_in_executor(self._threads, self._opened.terminal.write, buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(f"the job accepted no data for {timeout:.0f} s") from error

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream without waiting: the relay ends soon after."""
        if self._closed:
            return
        self._closed = True
        self._pump.cancel()
        self._threads.submit(self._opened.close)
        self._threads.shutdown(wait=False)

    def get_extra_info(self, info: str) -> bool | None:
        """`is_readable` of an idle connection means that it has ended."""
        return self._ended or not self._pieces.empty() if info == "is_readable" else None


def _close_late(done: asyncio.Future[OpenTerminal], threads: ThreadPoolExecutor) -> None:
    if not done.cancelled() and done.exception() is None:
        threads.submit(done.result().close)
    threads.shutdown(wait=False)


class JobNetwork(httpcore.AsyncNetworkBackend):
    """Network backend for a pool of connections to one port."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> JobStream:
        return await JobStream.open(self._connect)
