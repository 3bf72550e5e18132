"""A service to measure, and a client that costs little: what is timed should be the service."""

from __future__ import annotations

import asyncio
import compileall
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (str(Path(sys.executable).parent / "schedulearn"),)
JOB: dict[str, Any] = {
    "name": "bench",
    "type": "Pytorch",
    "container_image": "plain",
    "command": "true",
    "required_gpus": 1,
    "launcher": "none",
}


@dataclass
class Service:
    port: int
    pid: int
    data: Path
    ready_seconds: float

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return json.load(answer)

    def request(self, method: str, path: str, body: Any = None, timeout_s: float = 60) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.load(answer)

    def rss_mb(self) -> float:
        """Resident memory of the service itself."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the service is gone")

    def cpu_seconds(self) -> float:
        """Processor time of the service itself, so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compile_all() -> None:
    """Write bytecode, as `make setup` leaves it, whatever was edited since."""
    for folder in ("api", "features", "scheduler", "metrics"):
        compileall.compile_dir(folder, quiet=1)


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Until the service that `process` is to become answers. Raises RuntimeError if it ends before, or takes two
    minutes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if b"200 OK" in connection.recv(200):
                return
        if process.poll() is not None:
            raise RuntimeError("the service ended at its start")
        time.sleep(0.002)
    raise RuntimeError("the service did not become ready")


@contextmanager
def service(
    *flags: str, data: Path | None = None, env: dict[str, str] | None = None, program: Sequence[str] = COMMAND
) -> Iterator[Service]:
    """`schedulearn serve` on a free port, over a new data folder unless one is given."""
    with tempfile.TemporaryDirectory() as folder:
        directory = data or Path(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [
            *program,
            "serve",
            "--port",
            str(port),
            "--data",
            str(directory),
        ]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, *flags],
            env={**os.environ, "SCHEDULEARN_ENVIRONMENTS": '{"plain": "/usr"}', **(env or {})},
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the bench, which may still need the service to end its jobs
        )
        try:
            wait_until_ready(process, port)
            yield Service(port, process.pid, directory, time.perf_counter() - began)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def raw(method: str, path: str, body: Any = None, token: str = "") -> bytes:
    """One HTTP/1.1 request with keep-alive, as bytes."""
    payload = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """(status, body) of one request on an open connection."""
    status, _, body = await ask_whole(reader, writer, request)
    return status, body


async def ask_whole(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, dict[str, str], bytes]:
    """The same with the headers."""
    writer.write(request)
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first[9:12]), headers, await reader.readexactly(int(headers["content-length"]))


def verdict(what: str, measured: str, budget: str, ok: bool) -> bool:
    print(f"  {'ok  ' if ok else 'OVER'} {what}: {measured} (budget {budget})", flush=True)
    return ok
