"""State of the checkpoints that are brought to one host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager

from schedulearn.scheduler.runtimes.contract import FetchProgress


class HostCheckpoints:
    """Checkpoints under way to the host, and those that arrived. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: set[str] = set()
        """Jobs whose checkpoints are being brought."""
        self._progress: dict[str, FetchProgress] = {}  # by task id
        self._arrived: set[str] = set()
        """Tasks whose job's checkpoints have arrived."""

    def are_there(self, task_id: str) -> bool:
        return task_id in self._arrived

    def progress(self, task_id: str) -> FetchProgress | None:
        return self._progress.get(task_id)

    def note_progress(self, task_id: str, progress: FetchProgress) -> None:
        self._progress[task_id] = progress

    def keep_only(self, live: Set[str]) -> None:
        with self._lock:
            self._arrived &= live

    @contextmanager
    def bring(self, task_id: str, job_id: str) -> Iterator[None]:
        """Mark a job's checkpoints as under way, and as arrived if the block raises nothing."""
        with self._lock:
            self._jobs.add(job_id)
        try:
            yield
            with self._lock:
                self._arrived.add(task_id)
        finally:
            self._jobs.discard(job_id)
            self._progress.pop(task_id, None)

    def drop(self, job_id: str, may_go: Callable[[], bool], drop: Callable[[str], None]) -> None:
        """Call `drop`, unless the job's checkpoints are being brought or `may_go` is false.

        Meanwhile no checkpoints can begin to arrive."""
        with self._lock:
            if job_id not in self._jobs and may_go():
                drop(job_id)
