"""Transfer of archives from one host to another, through the service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.contract import FetchProgress


def transfer(chunks: Iterator[bytes], load: Callable[[Iterable[bytes]], None], what: str) -> Iterator[FetchProgress]:
    """Transfer one archive, as `transfer_all` does several."""
    return transfer_all([chunks], lambda archives: load(next(iter(archives))), what)


def transfer_all(
    archives: Sequence[Iterator[bytes]],
    load: Callable[[Iterable[Iterable[bytes]]], None],
    what: str,
    total: int = 0,
    done_before: int = 0,
) -> Iterator[FetchProgress]:
    """Pass `archives` to `load`, which takes one after another, and yield progress every second.

    `what`: description such as "copying ... from gpu1". `total`: approximate number of bytes, including `done_before`,
    which were transferred earlier; 0: unknown. Errors of either side are raised as RuntimeFault. Closing the generator
    aborts the transfer."""
    sent = done_before
    stopped = False
    done = threading.Event()
    failure: list[BaseException] = []

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal sent
        for chunk in chunks:
            if stopped:
                raise RuntimeFault(f"{what} was interrupted")
            sent += len(chunk)
            yield chunk

    def move() -> None:
        try:
            load(counted(archive) for archive in archives)
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=move, name="transfer", daemon=True).start()
    try:
        while not done.wait(1.0):
            share = f"{sent / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total else f"{sent / 1e6:,.0f} MB"
            yield FetchProgress(min(99.0, 100.0 * sent / total) if total else 0.0, f"{what} ({share})")
    finally:
        stopped = True
    if failure:
        raise RuntimeFault(f"{what} failed: {failure[0]}") from failure[0]
    yield FetchProgress(100.0, f"{what} ({sent / 1e6:,.1f} MB)")
