"""What an agent knows of the images of its host, and which of them are wanted there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.job_image import layer_tag
from schedulearn.scheduler.runtimes.contract import ImageProgress


@dataclass(frozen=True)
class Fetch:
    """A fetch of an image that is under way."""

    began_at: float
    progress: ImageProgress | None = None
    """None: it waits for its turn, or has just begun."""
    advanced_at: float = 0.0
    """When its per cent changed last."""


class NotWanted(Exception):
    """Nobody needs the image any more."""


class HostImages:
    """By name, thread-safe. Asks the host nothing: it is told what others found out."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._there: dict[str, bool] = {}
        self._asked: set[str] = set()
        """Images that somebody wants here, whether or not a job needs them."""
        self._needed: Set[str] = frozenset()
        """Images that jobs wait for here."""
        self._fetches: dict[str, Fetch] = {}
        self._failures: dict[str, str] = {}
        """Why an image could not be fetched last."""
        self._refusals: dict[str, str] = {}
        """Why an image can't be had."""
        self._fetched: dict[str, float] = {}
        """When the last fetch began that has succeeded."""

    def is_there(self, image: str) -> bool | None:
        """None: nobody has looked yet."""
        return self._there.get(image)

    def note(self, image: str, there: bool) -> None:
        self._there[image] = there

    def forget(self, image: str) -> None:
        """By all its names: `:latest` may be left out, and an engine has another one for an image with a layer."""
        with self._lock:
            for name in [each for each in self._there if layer_tag(each) in (image, image.removesuffix(":latest"))]:
                self._there.pop(name, None)

    def forget_all(self) -> None:
        self._there.clear()

    def ask_for(self, image: str) -> None:
        self._asked.add(image)

    def need(self, images: Set[str]) -> None:
        """Jobs wait for these and no others."""
        self._needed = frozenset(images)

    def check_wanted(self, image: str) -> None:
        """Raises NotWanted."""
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
        """The fetch that is under way has succeeded."""
        self._fetched[image] = self._fetches[image].began_at

    def fetched_since(self, image: str, instant: float) -> bool:
        return self._fetched.get(image, 0.0) >= instant

    def arrive(self, image: str) -> None:
        self._there[image] = True
        self._failures.pop(image, None)

    def fail(self, image: str, why: str) -> None:
        """For a passing cause."""
        self._failures[image] = why

    def refuse(self, image: str, why: str, *, anew: bool) -> None:
        """For good. One that was to be fetched `anew` stays there for those who take what is there."""
        with self._lock:
            self._failures[image] = why
            self._refusals[image] = why
            if not anew:
                self._there[image] = False

    def end_fetch(self, image: str) -> None:
        """However it ended."""
        with self._lock:
            self._asked.discard(image)
            self._fetches.pop(image, None)

    def has_failed(self, image: str) -> bool:
        return image in self._failures

    def fetches(self) -> dict[str, ImageProgress | str]:
        """Image -> how far its fetch is, or why the last one failed."""
        running = {image: fetch.progress for image, fetch in self._fetches.copy().items() if fetch.progress is not None}
        return {**self._failures, **running}

    def take_refusals(self) -> dict[str, str]:
        """Those since the last call: image -> why it can't be had."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
            return refusals
