"""Streams something from one host to another through the service, chunk by chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.contract import ImageProgress


def transfer(
    chunks: Iterator[bytes], load: Callable[[Iterable[bytes]], None], what: str, total: int = 0
) -> Iterator[ImageProgress]:
    """Gives `chunks` to `load`, and yields every second how much went. `what`: "copying ... from gpu1".
    `total`: how many bytes come, about; 0: nobody knows. Raises what
    either side raises, as a RuntimeFault. Closing the generator breaks the transfer off."""
    sent = 0
    stopped = False
    done = threading.Event()
    failure: list[BaseException] = []

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for chunk in chunks:
            if stopped:
                raise RuntimeFault(f"{what} was interrupted")
            sent += len(chunk)
            yield chunk

    def move() -> None:
        try:
            load(counted())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=move, name="transfer", daemon=True).start()
    try:
        while not done.wait(1.0):
            share = f"{sent / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total else f"{sent / 1e6:,.0f} MB"
            yield ImageProgress(min(99.0, 100.0 * sent / total) if total else 0.0, f"{what} ({share})")
    finally:
        stopped = True
    if failure:
        raise RuntimeFault(f"{what} failed: {failure[0]}") from failure[0]
    yield ImageProgress(100.0, f"{what} ({sent / 1e6:,.1f} MB)")
