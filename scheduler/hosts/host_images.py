"""State of the images on one host, and which are wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.job_image import layer_tag
from schedulearn.scheduler.runtimes.contract import ImageProgress


@dataclass(frozen=True)
class Fetch:
    """Image fetch in progress."""

    began_at: float
    progress: ImageProgress | None = None
    """None: the fetch waits for a free thread, or has just begun."""
    advanced_at: float = 0.0
    """Time of the last change of the integer percentage."""


class NotWanted(Exception):
    """The image is not needed any more."""


class HostImages:
    """Images by name. Thread-safe.

    It sends no request to the host: the agent records here the results of its own requests."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._there: dict[str, bool] = {}
        self._asked: set[str] = set()
        """Images that were requested here, whether or not a job needs them."""
        self._needed: Set[str] = frozenset()
        """Images that jobs wait for here."""
        self._fetches: dict[str, Fetch] = {}
        self._failures: dict[str, str] = {}
        """Reason why the last fetch of an image failed."""
        self._refusals: dict[str, str] = {}
        """Reason why an image can't be fetched at all."""
        self._fetched: dict[str, float] = {}
        """Time when the last successful fetch began."""

    def is_there(self, image: str) -> bool | None:
        """Return whether the image is there; None: not checked yet."""
        return self._there.get(image)

    def note(self, image: str, there: bool) -> None:
        self._there[image] = there

    def forget(self, image: str) -> None:
        """Forget an image by all its names.

        `:latest` may be left out, and an engine has another name for an image with a layer."""
        with self._lock:
            for name in [each for each in self._there if layer_tag(each) in (image, image.removesuffix(":latest"))]:
                self._there.pop(name, None)

    def forget_all(self) -> None:
        self._there.clear()

    def ask_for(self, image: str) -> None:
        self._asked.add(image)

    def need(self, images: Set[str]) -> None:
        """Set the images that jobs wait for, and no others."""
        self._needed = frozenset(images)

    def check_wanted(self, image: str) -> None:
        """Raise NotWanted if no job and no request needs the image."""
        if image not in self._needed and image not in self._asked:
            raise NotWanted

    def fetch_under_way(self, image: str) -> Fetch | None:
        return self._fetches.get(image)

    def begin_fetch(self, image: str) -> None:
        self._fetches[image] = Fetch(self._clock())

    def note_progress(self, image: str, progress: ImageProgress) -> None:
        fetch = self._fetches[image]
        still = fetch.progress is not None and int(fetch.progress.percent) == int(progress.percent)
        advanced_at = fetch.advanced_at if still else self._clock()
        self._fetches[image] = replace(fetch, progress=progress, advanced_at=advanced_at)

    def note_fetch(self, image: str) -> None:
        """Record the success of the fetch in progress."""
        self._fetched[image] = self._fetches[image].began_at

    def fetched_since(self, image: str, instant: float) -> bool:
        return self._fetched.get(image, 0.0) >= instant

    def arrive(self, image: str) -> None:
        self._there[image] = True
        self._failures.pop(image, None)

    def fail(self, image: str, why: str) -> None:
        """Record a failed fetch with a temporary cause."""
        self._failures[image] = why

    def refuse(self, image: str, why: str, *, anew: bool) -> None:
        """Record a permanent failure.

        An image that was to be fetched `anew` still counts as present, for jobs that accept the present version."""
        with self._lock:
            self._failures[image] = why
            self._refusals[image] = why
            if not anew:
                self._there[image] = False

    def end_fetch(self, image: str) -> None:
        """Record the end of a fetch, successful or not."""
        with self._lock:
            self._asked.discard(image)
            self._fetches.pop(image, None)

    def has_failed(self, image: str) -> bool:
        return image in self._failures

    def fetches(self) -> dict[str, ImageProgress | str]:
        """Return the progress of each image's fetch, or why the last fetch failed."""
        running = {image: fetch.progress for image, fetch in self._fetches.copy().items() if fetch.progress is not None}
        return {**self._failures, **running}

    def take_refusals(self) -> dict[str, str]:
        """Return the refusals since the last call: image -> reason."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
            return refusals
