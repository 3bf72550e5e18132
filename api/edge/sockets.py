"""Helper for all WebSockets that pass bytes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts of a conversation concurrently; when one ends, cancel the others.

    Raises what the first one raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
