"""State of images and shared data on one host, and which are wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.job_image import layer_tag
from schedulearn.scheduler.core.needs import Image, Need
from schedulearn.scheduler.runtimes.contract import FetchProgress


@dataclass(frozen=True)
class Fetch:
    """Fetch in progress."""

    began_at: float
    progress: FetchProgress | None = None
    """None: the fetch waits for a free thread, or has just begun."""
    advanced_at: float = 0.0
    """Time of the last change of the integer percentage."""


class NotWanted(Exception):
    """The image or data is not needed any more."""


class HostNeeds:
    """State of images and data. Thread-safe.

    It sends no request to the host: the agent records here the results of its own requests."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._there: dict[Need, bool] = {}
        self._asked: set[Need] = set()
        """Needs that were requested here, whether or not a job has them."""
        self._needed: Set[Need] = frozenset()
        """Needs of jobs that wait for them here."""
        self._fetches: dict[Need, Fetch] = {}
        self._failures: dict[Need, str] = {}
        """Reason why the last fetch failed."""
        self._refusals: dict[Need, str] = {}
        """Reason why a fetch is impossible."""
        self._fetched: dict[Need, float] = {}
        """Time when the last successful fetch began."""

    def is_there(self, need: Need) -> bool | None:
        """Return whether it is there; None: not checked yet."""
        return self._there.get(need)

    def note(self, need: Need, there: bool) -> None:
        self._there[need] = there

    def forget(self, need: Need) -> None:
        """Forget an image by all its names.

        `:latest` may be left out, and an engine has another name for an image with a layer."""
        with self._lock:
            for each in [each for each in list(self._there) if _has_name(each, need)]:
                self._there.pop(each, None)

    def forget_all(self) -> None:
        self._there.clear()

    def ask_for(self, need: Need) -> None:
        self._asked.add(need)

    def keep_wanted(self, needs: Set[Need]) -> None:
        """Set the images and data that jobs wait for, and no others."""
        self._needed = frozenset(needs)

    def check_wanted(self, need: Need) -> None:
        """Raise NotWanted if no job and no request needs it."""
        if need not in self._needed and need not in self._asked:
            raise NotWanted

    def fetch_under_way(self, need: Need) -> Fetch | None:
        return self._fetches.get(need)

    def begin_fetch(self, need: Need) -> None:
        self._fetches[need] = Fetch(self._clock())

    def note_progress(self, need: Need, progress: FetchProgress) -> None:
        fetch = self._fetches[need]
        still = fetch.progress is not None and int(fetch.progress.percent) == int(progress.percent)
        advanced_at = fetch.advanced_at if still else self._clock()
        self._fetches[need] = replace(fetch, progress=progress, advanced_at=advanced_at)

    def note_fetch(self, need: Need) -> None:
        """Record the success of the fetch in progress."""
        self._fetched[need] = self._fetches[need].began_at

    def fetched_since(self, need: Need, instant: float) -> bool:
        return self._fetched.get(need, 0.0) >= instant

    def arrive(self, need: Need) -> None:
        with self._lock:  # for other logins, its name may mean another image now
            for each in [each for each in list(self._there) if each != need and _has_name(each, need)]:
                self._there.pop(each, None)
            self._there[need] = True
        self._failures.pop(need, None)

    def fail(self, need: Need, why: str) -> None:
        """Record a failed fetch with a temporary cause."""
        self._failures[need] = why

    def refuse(self, need: Need, why: str, *, anew: bool) -> None:
        """Record a permanent failure.

        An image that was to be fetched `anew` still counts as present, for jobs that accept the present version."""
        with self._lock:
            self._failures[need] = why
            self._refusals[need] = why
            if not anew:
                self._there[need] = False

    def end_fetch(self, need: Need) -> None:
        """Record the end of a fetch, successful or not."""
        with self._lock:
            self._asked.discard(need)
            self._fetches.pop(need, None)

    def has_failed(self, need: Need) -> bool:
        return need in self._failures

    def fetches(self) -> dict[Need, FetchProgress | str]:
        """Return the progress of each fetch, or why the last fetch failed."""
        running = {need: fetch.progress for need, fetch in self._fetches.copy().items() if fetch.progress is not None}
        return {**self._failures, **running}

    def take_refusals(self) -> dict[Need, str]:
        """Return the refusals since the last call, with their reasons."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
            return refusals


def _has_name(known: Need, need: Need) -> bool:
    """Return whether `need` names `known`, as an engine does."""
    if isinstance(known, Image) and isinstance(need, Image):
        return layer_tag(known.name) in (need.name, need.name.removesuffix(":latest"))
    return known == need
