"""Launcher of an elastic job's workers on this host.

    python3 -m schedulearn.worker.launch horovod|torchrun WORKERS COMMAND...

When the job is to stop, it gives the workers time to save a checkpoint. horovodrun kills its workers as soon as it is
told to stop, and torchrun hides their exit codes. This launcher gives workers the same variables as those two, passes
SIGTERM on, and waits for them. It exits with PREEMPTED if the workers saved a checkpoint.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from importlib import metadata
from typing import IO, Any

from schedulearn.worker import PREEMPTED
from schedulearn.worker.keras_trap import warn_of_scripts
from schedulearn.worker.supervisor import LOOK_S, Process, Stop, processes

GRACE_AFTER_FAILURE_S = 5.0  # seconds for the other workers to exit after one has failed
PLAIN = {"horovod": "horovodrun", "torchrun": "torchrun"}


def main(arguments: list[str]) -> int:
    kind, count, command = arguments[0], int(arguments[1]), arguments[2:]
    if kind == "horovod":
        warn_of_scripts(_version("keras"), command)
    try:
        environments = horovod_workers(count) if kind == "horovod" else torch_workers(count)
    except ImportError:
        # The package may be in another interpreter: its own launcher is better than nothing.
        return _plain(kind, count, command)
    return Workers(command, environments).run()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def horovod_workers(count: int) -> list[dict[str, str]]:
    """Return the variables by which `count` workers on this host find each other.

    This process serves their rendezvous as long as it lives."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    plan = get_host_assignments(parse_hosts(f"localhost:{count}"), count)
    server = RendezvousServer(verbose=0)
    port = server.start()
    server.init(plan)
    meeting = create_run_env_vars("127.0.0.1", ["lo"], port)
    return [{k: str(v) for k, v in {**meeting, **create_slot_env_vars(slot)}.items()} for slot in plan]


def torch_workers(count: int) -> list[dict[str, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    shared.update({"LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1"})
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _session(leader: int) -> list[Process]:
    return [each for each in processes() if each.session == leader]


class Workers:
    def __init__(self, command: list[str], environments: list[dict[str, str]]) -> None:
        self._command = command
        self._environments = environments
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopping = False
        self._stops: dict[int, Stop] = {}
        """Keyed by the process id of the worker that was told to stop."""

    def run(self) -> int:
        """Run the workers until all have exited.

        Returns 0, PREEMPTED, or the exit code of the first worker that failed."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        pumps = []
        try:
            for rank, extra in enumerate(self._environments):
                # A separate session: a signal to our process group reaches the worker once, through us.
                process = subprocess.Popen(
                    self._command,
                    env={**os.environ, **extra, "PYTHONUNBUFFERED": "1"},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._processes.append(process)
                assert process.stdout is not None
                pumps.append(threading.Thread(target=_pump, args=(process.stdout, rank), daemon=True))
                pumps[-1].start()
        except OSError as error:
            print(f"{self._command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
            self._kill()
            return 127 if isinstance(error, FileNotFoundError) else 126
        if self._stopping:
            self._stop()  # the signal came while workers were being started
        first = self._wait()
        for pump in pumps:
            pump.join(timeout=5)
        return first

    def _wait(self) -> int:
        failed: int | None = None
        killed = False
        deadline = 0.0
        while True:
            codes = [process.poll() for process in self._processes]
            if failed is None:
                fine = (None, 0, PREEMPTED, *([-signal.SIGTERM] if self._stopping else ()))
                failed = next((code for code in codes if code not in fine), None)
                if failed is not None:
                    print(f"a worker ended with {failed}: the others can't continue", flush=True)  # noqa: T201
                    self._signal(signal.SIGTERM)
                    deadline = time.monotonic() + GRACE_AFTER_FAILURE_S
            if deadline == 0.0 or time.monotonic() <= deadline:
                killed = killed or -signal.SIGKILL in codes  # by another process: this one has killed none yet
            # A worker may be a shell, which dies of SIGTERM while its training saves.
            saving = [stop.goes_on() for stop in list(self._stops.values())]
            if not any(saving) and None not in codes:
                if killed:
                    return 128 + signal.SIGKILL  # whatever the exit codes of the other workers are
                if failed is not None:
                    return failed if failed > 0 else 128 - failed
                if PREEMPTED in codes:
                    return PREEMPTED
                return 128 + signal.SIGTERM if -signal.SIGTERM in codes else 0
            if failed is not None and time.monotonic() > deadline:
                self._kill()
            time.sleep(LOOK_S if self._stops else 0.02)

    def _stop(self, *_: Any) -> None:
        self._stopping = True
        for process in self._processes:
            if process.pid not in self._stops and process.poll() is None:
                self._stops[process.pid] = Stop(process.pid, partial(_session, process.pid))

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    pass

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)


def _pump(source: IO[bytes], rank: int) -> None:
    """Copy lines to stdout, with the prefix that horovodrun uses."""
    mark = f"[{rank}]<stdout>:".encode()
    for line in source:
        sys.stdout.buffer.write(mark + line)
        sys.stdout.buffer.flush()


def _plain(kind: str, count: int, command: list[str]) -> int:
    launcher = PLAIN[kind]
    options = ["-np", str(count), "-H", f"localhost:{count}"]
    if kind == "torchrun":
        options = ["--standalone", f"--nproc-per-node={count}", "--no-python"]
    try:
        os.execvp(launcher, [launcher, *options, *command])  # noqa: S606
    except OSError as error:
        print(f"{launcher}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
