"""The server of `schedulearn serve`, whose one answer waits for a thread, as a file that is read does. No thread can be
cancelled, and this one ends only after the application has stopped."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from schedulearn.api.cli.service.announcement import Announcement
from schedulearn.api.cli.service.server import _Server, _Startup
from schedulearn.api.settings import Settings
from schedulearn.api.stream import Broadcaster

stopped = threading.Event()


def chunks() -> Iterator[bytes]:
    print("begun", flush=True)
    stopped.wait(20)
    time.sleep(0.3)
    print("ended", flush=True)
    yield b""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        scope["state"].update(runtime="none", simulated_gpus=0, unknown="")
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        stopped.set()
        return
    await StreamingResponse(chunks())(scope, receive, send)


logging.basicConfig(level=logging.WARNING)
with socket.create_server(("127.0.0.1", 0)) as listener:
    settings = Settings(port=listener.getsockname()[1])
    announcement = Announcement(settings, made_token=False, login=None)
    _Server(_Startup(app), Broadcaster(), announcement, None, verbose=False, as_json=True).run(sockets=[listener])
