"""Terminals in containers, by the engine's exec.

They use the engine's connection: no port is opened, and nothing is installed in the container.

An exec outlives its connection. Each command therefore has a mark in its environment, which all its children inherit.
`close` runs a shell in the container, which ends all processes with the mark. A process without the mark and without a
living parent that has it runs until the container ends. Such a process has dropped both its environment and its
parents, which does not happen by accident.
"""

from __future__ import annotations

import secrets
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import docker.errors
import requests

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import CONNECT_S, Engine, status_of
from schedulearn.scheduler.runtimes.terminals.contract import (
    COMMAND,
    HANG_UP_S,
    NO_CODE,
    OUT,
    TERM,
    NotRunningError,
    Process,
    Size,
    TaskLoad,
    busiest,
)

MARK = "SCHEDULEARN_TERMINAL"
_READ = 1 << 16
_PS = "-eo pid,user,pcpu,rss,etimes,args"
_END_S = 10.0  # maximum wait for the engine to report the exit code, after the output has ended

# $1: text in the environment of processes to end; $2: text in that of processes to spare; $3: tenths of a second for
# processes to end by themselves. Needs only a plain shell, `tr` and `sleep`.
END = r"""
rounds=0 signal=HUP left=$3
while [ $rounds -lt 100 ]; do
  rounds=$((rounds + 1)) found=" "
  for p in /proc/[0-9]*; do
    environment=$({ tr '\0' '\n' <"$p/environ"; } 2>/dev/null)
    case "$environment" in
      *"$2"*) ;;
      *"$1"*) found="$found${p#/proc/} " ;;
    esac
  done
  more=1
  while [ $more = 1 ]; do
    more=0
    for p in /proc/[0-9]*; do
      pid=${p#/proc/}
      case "$found" in *" $pid "*) continue ;; esac
      { read -r line <"$p/stat"; } 2>/dev/null || continue
      set -- "$1" "$2" ${line##*) }
      [ "$3" = Z ] && continue
      case "$found" in *" $4 "* | *" $6 "*) found="$found$pid " more=1 ;; esac
    done
  done
  [ "$found" = " " ] && exit 0
  [ -z "$signal" ] || kill -$signal $found 2>/dev/null
  if [ "$left" -gt 0 ]; then
    signal="" left=$((left - 1)) && sleep 0.1
  else
    signal=KILL
  fi
done
exit 1
"""
_NOBODY = f"{MARK}=nobody"  # no process has it


class DockerTerminals:
    """`Terminals` of one engine. `find` returns the inspected container of a task."""

    def __init__(self, engine: Engine, find: Callable[[str], Mapping[str, Any] | None], label: str) -> None:
        """`label` is the label of this service's containers."""
        self._engine = engine
        self._find = find
        self._label = label
        self._service = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._left: dict[str, set[str]] = {}
        """Container -> marks of commands that could not be ended, because the container was paused."""

    def open(self, task_id: str, argv: Sequence[str], size: Size | None) -> DockerTerminal:
        with self._engine.errors(f"open a terminal in {task_id}"):
            container = self._running(task_id)
            mark = f"{self._service}-{secrets.token_hex(8)}"
            try:
                return DockerTerminal(self._engine, container, argv, size, mark, self._end)
            except docker.errors.APIError as error:
                if status_of(error) in (404, 409):
                    raise NotRunningError(f"{task_id} is no longer running: nothing can run in it") from error
                raise

    def load(self, task_id: str) -> TaskLoad:
        with self._engine.errors(f"inspect {task_id}"):
            container = self._running(task_id)
            try:
                shown = self._engine.api.top(container, _PS)
                stats = self._engine.api.stats(container, stream=False)
            except docker.errors.APIError as error:
                if status_of(error) in (404, 409):
                    raise NotRunningError(f"{task_id} is no longer running") from error
                raise
        return read_load(shown["Processes"] or (), stats)

    def _running(self, task_id: str) -> str:
        """Return the id of the task's container. Raises NotRunningError if it is not running."""
        container = self._find(task_id)
        if container is None or container["State"]["Status"] != "running":
            state = "missing" if container is None else container["State"]["Status"]
            raise NotRunningError(f"{task_id} is {state}: nothing can run in it")
        return str(container["Id"])

    def clean(self) -> None:
        with self._engine.errors("find leftover terminals"):
            api = self._engine.api
            for row in api.containers(filters={"label": self._label, "status": "running"}):
                try:
                    left = api.inspect_container(row["Id"])["ExecIDs"]
                    if left:
                        self._hang_up(str(row["Id"]), f"{MARK}=", f"{MARK}={self._service}-")
                except (docker.errors.APIError, RuntimeFault):
                    continue  # it has just ended

    def resumed(self, container: str) -> None:
        """End the commands that were left in a container while it was paused."""
        with self._lock:
            marks = self._left.pop(container, set())
        for mark in marks:
            self._end(container, mark)

    def _end(self, container: str, mark: str) -> None:
        """End the processes with the mark; in a paused container, after it is resumed."""
        try:
            self._hang_up(container, f"{MARK}={mark}", _NOBODY)
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):
                raise
            if status_of(error) == 409 and self._is_paused(container):
                with self._lock:
                    self._left.setdefault(container, set()).add(mark)

    def _is_paused(self, container: str) -> bool:
        try:
            return bool(self._engine.api.inspect_container(container)["State"]["Paused"])
        except docker.errors.NotFound:
            return False

    def _hang_up(self, container: str, victims: str, survivors: str) -> None:
        api = self._engine.api
        made = api.exec_create(container, ["sh", "-c", END, "sh", victims, survivors, str(round(10 * HANG_UP_S))])
        api.exec_start(made["Id"])


def read_load(rows: Sequence[Sequence[str]], stats: Mapping[str, Any]) -> TaskLoad:
    """Convert the engine's answers to `top` and `stats`."""
    processes = [
        Process(int(pid), user, float(cpu), int(kib) << 10, float(seconds), command[:COMMAND])
        for pid, user, cpu, kib, seconds, command in rows
    ]
    now, before = stats["cpu_stats"], stats["precpu_stats"]
    used = now["cpu_usage"]["total_usage"] - before["cpu_usage"]["total_usage"]
    passed = now.get("system_cpu_usage", 0) - before.get("system_cpu_usage", 0)
    cpu = 100 * used / passed * now.get("online_cpus", 1) if passed > 0 else 0.0
    memory = stats["memory_stats"]
    cache = memory.get("stats", {}).get("inactive_file", 0)  # memory that the kernel can reclaim
    return TaskLoad(busiest(processes), round(cpu, 1), max(0, memory.get("usage", 0) - cache), memory.get("limit"))


class DockerTerminal:
    """Attached exec. Its socket is non-blocking: a lock separates reads and writes, which TLS requires."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        argv: Sequence[str],
        size: Size | None,
        mark: str,
        end: Callable[[str, str], None],
    ) -> None:
        self._engine, self._container, self._mark, self._end = engine, container, mark, end
        self._tty = size is not None
        self._ended_input = False
        self._closing = threading.Lock()
        self._closed = False
        self._using = threading.Lock()
        self._frames = self._read_frames()
        body = {
            "Cmd": list(argv),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": self._tty,
            "Env": [f"{MARK}={mark}", *([f"TERM={TERM}"] if self._tty else [])],
            **({"ConsoleSize": [size.rows, size.columns]} if size is not None else {}),
        }
        made = _post(engine, f"/containers/{container}/exec", json=body)
        with made:
            self._id = str(made.json()["Id"])
        self._response = _post(
            engine,
            f"/exec/{self._id}/start",
            json={"Detach": False, "Tty": self._tty},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            stream=True,
        )
        file = self._response.raw._fp.fp
        self._socket = file.raw._sock
        self._socket.setblocking(False)
        try:
            self._early = bytes(file.peek())  # bytes that came together with the response headers
        except ssl.SSLWantReadError:
            self._early = b""

    def read(self) -> tuple[int, bytes] | None:
        if self._tty:
            data = self._receive()
            return (OUT, data) if data else None
        return next(self._frames, None)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._ended_input and not self._closed:
            try:
                with self._using:
                    sent = self._socket.send(rest)
                rest = rest[sent:]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._wait(select.POLLOUT)
            except (OSError, ValueError):
                return  # it has ended

    def end_input(self) -> None:
        if self._tty:
            self.write(b"\x04")
            return
        self._ended_input = True
        try:
            with self._using:
                self._socket.shutdown(1)
        except (OSError, ValueError):
            pass

    def resize(self, size: Size) -> None:
        if not self._tty:
            return
        try:
            with self._engine.errors("resize a terminal"):
                self._engine.api.exec_resize(self._id, height=size.rows, width=size.columns)
        except RuntimeFault:
            pass  # it has ended

    def exit_code(self) -> int:
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            try:
                with self._engine.errors("get the exit code of a command"):
                    found = self._engine.api.exec_inspect(self._id)
            except RuntimeFault:
                return NO_CODE  # gone with its container
            if not found["Running"] and found["ExitCode"] is not None:
                return int(found["ExitCode"])
            time.sleep(0.05)
        return NO_CODE

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                self._socket.shutdown(2)  # wakes readers and writers
            except (OSError, ValueError):
                pass
            try:
                with self._engine.errors("end a terminal"):
                    self._end(self._container, self._mark)
            finally:
                with self._using:
                    self._socket.close()
                self._response.close()

    def _receive(self) -> bytes:
        if self._early:
            data, self._early = self._early, b""
            return data
        while not self._closed:
            try:
                with self._using:
                    return bytes(self._socket.recv(_READ))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._wait(select.POLLIN)
            except (OSError, ValueError):
                break
        return b""

    def _wait(self, event: int) -> None:
        poller = select.poll()
        try:
            poller.register(self._socket.fileno(), event)
            poller.poll(1000)
        except (OSError, ValueError):
            pass  # closed

    def _read_frames(self) -> Iterator[tuple[int, bytes]]:
        """Read frames, without a terminal. A frame is 8 bytes (stream, 3 zeros, length), then the payload."""
        buffer = bytearray()
        while data := self._receive():
            buffer += data
            while len(buffer) >= 8 and len(buffer) >= (end := 8 + int.from_bytes(buffer[4:8])):
                frame = buffer[0], bytes(buffer[8:end])
                del buffer[:end]
                yield frame


def _post(engine: Engine, path: str, **request: Any) -> requests.Response:
    """Send a POST request. Raises docker's APIError if the engine refuses it."""
    api = engine.api
    response: requests.Response = api.request(
        "POST", f"{api.base_url}/v{api.api_version}{path}", timeout=(CONNECT_S, None), **request
    )
    if response.status_code >= 400:
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            raise docker.errors.create_api_error_from_http_exception(error) from error
    return response
