"""What really runs, seen past the service and past the proxy: the events of the engine, or the processes of this
machine."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker import APIClient
from docker.errors import DockerException

LABEL = "schedulearn.cluster"


def job_of(task: str) -> str:
    return task.split("-")[1]


class Overlaps:
    """Which task has which GPU, as it comes and goes. `was_at_once`: a closer look at two that seem to overlap."""

    def __init__(self, broken: list[str], was_at_once: Callable[[str, str], bool] = lambda task, other: True) -> None:
        self._broken = broken
        self._was_at_once = was_at_once
        self._gpus: dict[str, list[str]] = {}

    def begin(self, task: str, gpus: list[str]) -> None:
        for other, theirs in self._gpus.items():
            both = set(gpus) & set(theirs)
            again = job_of(other) == job_of(task) and _attempt(other) != _attempt(task)
            if other != task and (both or again) and self._was_at_once(task, other):
                self._broken.append(f"{task} was started on {gpus} while {other} ran on {theirs}")
        self._gpus[task] = gpus

    def end(self, task: str) -> None:
        self._gpus.pop(task, None)

    def now(self) -> list[str]:
        return sorted(self._gpus)


def _attempt(task: str) -> str:
    return task.split("-")[2]


def _gpus(env: Mapping[str, str]) -> list[str]:
    named = env.get("NVIDIA_VISIBLE_DEVICES", "void")
    return named.split(",") if named not in ("", "void") else []


class ContainerWitness:
    """Listens to the events of the engine itself."""

    def __init__(self, url: str, cluster_id: str) -> None:
        self.starts: Counter[str] = Counter()
        self.exits: dict[str, int] = {}
        self.uncertain: set[str] = set()
        """Tasks whose exit code may be another one than `exits` says: none, the engine knows."""
        self.broken: list[str] = []
        self._api = APIClient(url)
        self._filters = {"label": f"{LABEL}={cluster_id}"}
        self._overlaps = Overlaps(self.broken, self._was_at_once)
        self._given: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._events: Any = self._api.events(filters={**self._filters, "type": "container"}, decode=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        for row in self._rows():
            with suppress(DockerException):
                self._api.remove_container(row["Id"], force=True, v=True)
        for volume in self._api.volumes(filters=self._filters)["Volumes"] or ():
            with suppress(DockerException):
                self._api.remove_volume(volume["Name"], force=True)
        self._events.close()
        self._thread.join(10)
        self._api.close()

    def running(self) -> list[str]:
        with self._lock:
            return self._overlaps.now()

    def left(self) -> list[str]:
        return sorted(row["Names"][0].removeprefix("/") for row in self._rows())

    def kill(self, task: str) -> None:
        """As somebody who types `docker kill`."""
        with suppress(DockerException):
            self._api.kill(task)

    def _rows(self) -> list[Any]:
        return list(self._api.containers(all=True, filters=self._filters))

    def _listen(self) -> None:
        with suppress(DockerException, OSError, ValueError, AttributeError):
            for event in self._events:
                with self._lock:
                    self._note(event["Action"], event["Actor"]["Attributes"])

    def _note(self, action: str, attributes: Mapping[str, str]) -> None:
        task = attributes["name"]
        if not task.startswith("schedulearn-") or len(task.split("-")) != 4:
            return  # a probe
        match action:
            case "create":
                self._given[task] = self._gpus_of(task)
            case "start":
                self.starts[task] += 1
                if self.starts[task] > 1:
                    self.broken.append(f"{task} was started {self.starts[task]} times")
                self._overlaps.begin(task, self._given.get(task, []))
            case "pause" | "die":
                self._overlaps.end(task)
            case "unpause":
                self._overlaps.begin(task, self._given.get(task, []))
        if action == "die":
            self.exits[task] = int(attributes["exitCode"])

    def _was_at_once(self, task: str, other: str) -> bool:
        """An engine tells of an end a little after it shows it."""
        with suppress(DockerException):
            before, after = (self._api.inspect_container(name)["State"] for name in (other, task))
            return before["Status"] == "running" or before["FinishedAt"] > after["StartedAt"]
        return False  # removed: it had ended before that

    def _gpus_of(self, task: str) -> list[str]:
        with suppress(DockerException):
            entries = self._api.inspect_container(task)["Config"]["Env"]
            return _gpus(dict(entry.partition("=")[::2] for entry in entries))
        return []


class ProcessWitness:
    """Looks through the processes of this machine, again and again. Commands note their starts and ends in `marks`."""

    def __init__(self, data: Path, marks: Path) -> None:
        self.broken: list[str] = []
        self.uncertain: set[str] = set()
        """Tasks that were killed here: perhaps between the note of their exit code and their exit, or their `sleep`
        before their shell, which then goes on for a moment."""
        self._mark = os.fsencode(data / "tasks")
        self._marks = marks
        self._stop = threading.Event()
        self._now: list[str] = []
        self._thread = threading.Thread(target=self._look_again, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        for pid, _ in self._ours():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

    @property
    def starts(self) -> Counter[str]:
        return Counter(task for task, words in self._noted() for word in words if word == "began")

    @property
    def exits(self) -> dict[str, int]:
        return {task: int(word) for task, words in self._noted() for word in words if word != "began"}

    def running(self) -> list[str]:
        return self._now

    def left(self) -> list[str]:
        return [str(pid) for pid, _ in self._ours()]

    def kill(self, task: str) -> None:
        """As somebody who types `kill -9`."""
        for pid, env in self._ours():
            if env.get("SCHEDULEARN_TASK") == task:
                self.uncertain.add(task)
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)

    def _noted(self) -> Iterator[tuple[str, list[str]]]:
        for path in self._marks.iterdir():
            yield path.name, path.read_text().split()

    def _look_again(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        found: dict[str, tuple[int, list[str]]] = {}
        for pid, env in self._ours():
            if (task := env.get("SCHEDULEARN_TASK")) and _runs(pid):
                found[task] = (pid, _gpus(env))
        wrong: list[str] = []
        overlaps = Overlaps(wrong)
        for task, (_, gpus) in found.items():
            overlaps.begin(task, gpus)
        # One that was seen early may have ended before one that was seen late began.
        if wrong and all(_runs(pid) for pid, _ in found.values()):
            self.broken += wrong
        self._now = sorted(found)

    def _ours(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Processes of tasks, with their environment; that of a keeper is empty."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                environ = (entry / "environ").read_bytes()
                if self._mark in environ or self._mark in (entry / "cmdline").read_bytes():
                    words = environ.decode(errors="replace").split("\0")
                    yield int(entry.name), dict(word.partition("=")[::2] for word in words if word)


def _runs(pid: int) -> bool:
    """Neither paused nor about to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] not in ("T", "Z")
    except OSError:
        return False


Witness = ContainerWitness | ProcessWitness
