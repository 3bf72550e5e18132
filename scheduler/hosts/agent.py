"""The service's grip on one host: it observes and acts there without ever making the loop wait.

Each agent has its own thread for observing and a few for acting, so that a slow or dead host delays nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import NamesImage
from schedulearn.scheduler.core.observations import Observation, Outage, Refusal, through_outages
from schedulearn.scheduler.core.reconcile import (
    Action,
    FetchCheckpoints,
    FetchImage,
    LookForImage,
    PauseTask,
    RemoveTask,
    ResumeTask,
    StartTask,
    StopTask,
    identity_of,
    key_of,
)
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.errors import RuntimeFault, SchedulearnError, StartRefused
from schedulearn.scheduler.runtimes.contract import ImageProgress, Runtime

log = logging.getLogger(__name__)

NOT_CONTACTED = "not contacted yet"
_OUTAGES = 50
_FETCHES = 3  # at a time; further ones wait for their turn
_RESYNC_S = 10.0  # observe at least this often: events of an engine may be missed
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class HostStatus:
    """What an agent knows now."""

    host_id: str
    observation: Observation | None
    """None until the host has answered, and again while it does not."""
    error: str
    """Why it does not answer; empty while it does."""
    facts: HostFacts | None = None
    """What it said of itself when it was contacted last."""
    silent_since: float = 0.0
    """Since when it does not answer, by the clock of the service; meaningless while it does."""


@dataclass(frozen=True)
class Fetch:
    """A fetch of an image that is under way."""

    began_at: float
    progress: ImageProgress | None = None
    """None: it waits for its turn, or has just begun."""


class _NotWanted(Exception):
    """Nobody needs the image any more."""


class HostAgent:
    """Observes `runtime` and carries out actions on it; calls `on_change` when the loop should look again.

    `on_contact` is told what the host says of itself before it is first observed, and again each time that it comes
    back; what it raises keeps the host from being used. `fetch_image` replaces the runtime's own way to an image;
    `fetch_checkpoints` brings those of a job here.
    """

    def __init__(
        self,
        host_id: str,
        runtime: Runtime,
        on_change: Callable[[], None],
        *,
        on_contact: Callable[[HostFacts], None] = lambda facts: None,
        fetch_image: Callable[[str], Iterator[ImageProgress]] | None = None,
        fetch_checkpoints: Callable[[str], Iterator[ImageProgress]] = lambda job_id: iter(()),
    ) -> None:
        self.host_id = host_id
        self.runtime = runtime
        self._on_change = on_change
        self._on_contact = on_contact
        self._fetch_image = fetch_image or runtime.fetch_image
        self._fetch_checkpoints = fetch_checkpoints
        self._dropping = threading.Lock()
        self._bringing: set[str] = set()  # jobs
        self._lock = threading.Lock()
        self._poke = threading.Event()
        self._stopping = False
        self._status = HostStatus(host_id, None, NOT_CONTACTED, silent_since=time.time())
        self._last: object = None
        self._inflight: set[tuple[type[Action], str]] = set()
        self._starting: set[str] = set()
        self._touched: set[str] = set()
        self._started: set[str] = set()
        self._refusals: dict[str, Refusal] = {}
        self._retries: dict[str, tuple[int, float, str]] = {}  # key -> tries, not before, why
        self._progress: dict[str, ImageProgress] = {}  # key of an action that takes long -> how far it is
        self._images: dict[str, bool] = {}  # image -> whether it is there, as far as is known
        self._asked: set[str] = set()  # images that somebody wants here, whether or not a job needs them
        self._needed: Set[str] = frozenset()  # images that jobs wait for here
        self._fetches: dict[str, float] = {}  # image -> when its fetch began
        self._refused_images: dict[str, str] = {}  # image -> why it can't be had
        self._unavailable: dict[str, ImageProgress | str] = {}  # image -> why it could not be fetched last
        self._brought: set[str] = set()  # tasks whose checkpoints are here
        self._outages: list[Outage] = []
        self._answered_at = 0.0
        self._broke = False
        """A connection broke since the host was last asked."""
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix=f"act-{host_id}")
        self._fetchers = ThreadPoolExecutor(max_workers=_FETCHES, thread_name_prefix=f"fetch-{host_id}")
        self._threads = [
            threading.Thread(target=self._observe_forever, name=f"observe-{host_id}", daemon=True),
            threading.Thread(target=self._watch_forever, name=f"watch-{host_id}", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stops observing and acting; tasks go on. Waits for actions under way."""
        self._stopping = True
        self._poke.set()
        self.runtime.close()
        for pool in (self._pool, self._fetchers):
            pool.shutdown(wait=True, cancel_futures=True)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=5)

    def poke(self) -> None:
        """Observe now."""
        self._poke.set()

    @property
    def status(self) -> HostStatus:
        return self._status

    def image_of(self, job: NamesImage) -> str:
        """The image, or local environment, that a job needs here."""
        return self.runtime.image_for(job.container_image, job.launcher)

    def has_image(self, image: str) -> bool:
        """Whether tasks with this image can start at once, as far as is known."""
        return self.knows_image(image) is True

    def knows_image(self, image: str) -> bool | None:
        """Whether the image is there; None: nobody has looked yet."""
        return self._images.get(image)

    def look_for(self, image: str) -> None:
        """Begins to find out whether an image is there."""
        self._begin(LookForImage(image), [])

    def fetch_under_way(self, image: str) -> Fetch | None:
        began_at = self._fetches.get(image)
        return None if began_at is None else Fetch(began_at, self._progress.get(f"image {image}"))

    def fetch(self, image: str, *, anew: bool = False) -> None:
        """Begins to fetch an image because somebody wants it here; one that is there only if `anew`. `fetches` says
        whether it can't be had."""
        self._asked.add(image)
        self._begin(FetchImage(image, anew), [])

    def fetch_for_jobs(self, images: Set[str]) -> None:
        """Begins to fetch the images that jobs wait for here, unless they failed a moment ago. A fetch for a job that
        needs it no more is broken off."""
        self._needed = frozenset(images)
        for image in sorted(images):
            if time.time() >= self.trouble(f"image {image}")[0]:
                self._begin(FetchImage(image), [])

    def may_fetch(self, image: str) -> bool:
        """False after a fetch that has failed for good."""
        return image not in self._unavailable or bool(self.trouble(f"image {image}")[1])

    def fetches(self) -> dict[str, ImageProgress | str]:
        """Image -> how far its fetch is, or why the last one failed."""
        running = {key.removeprefix("image "): step for key, step in self._progress.items() if key.startswith("image ")}
        return {**self._unavailable, **running}

    def forget_image(self, image: str) -> None:
        """Removes an image, so that its next use fetches it again. What a container has stays."""
        short = image.removesuffix(":latest")
        with self._lock:
            for name in (image, short):
                self._images.pop(name, None)
        self.runtime.remove_image(image)

    def has_checkpoints(self, task_id: str) -> bool:
        """Whether its job's were brought here for this task."""
        return task_id in self._brought

    def bringing(self, task_id: str) -> ImageProgress | None:
        """How far the checkpoints for this task are; None while none are under way."""
        return self._progress.get(task_id)

    def take_refusals(self) -> dict[str, Refusal]:
        """Starts that failed for good since the last call, by task id."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
            return refusals

    def take_refused_images(self) -> dict[str, str]:
        """Images of which a fetch has failed for good since the last call, with the reason."""
        with self._lock:
            refused, self._refused_images = self._refused_images, {}
            return refused

    def trouble(self, task_id: str) -> tuple[float, str]:
        """(not before this time, why) for a start that failed for a passing cause, or for the fetch `image NAME`; (0,
        "") if none did."""
        _, when, why = self._retries.get(task_id, (0, 0.0, ""))
        return when, why

    def drop_checkpoints(self, job_id: str, may_go: Callable[[], bool]) -> None:
        """Those of a job that has none brought here just now, if they `may_go`: none comes before they went."""
        with self._dropping:
            if job_id not in self._bringing and may_go():
                self.runtime.drop_checkpoints(job_id)

    def act(self, actions: Sequence[Action], waiting_for: dict[str, list[str]]) -> None:
        """Begins `actions` that are not under way. `waiting_for`: image -> ids of the tasks that have it, of all tasks
        of this host that have not ended; what is known of others is forgotten."""
        with self._lock:
            live = {task_id for ids in waiting_for.values() for task_id in ids}
            self._started &= live
            self._brought &= live
        for action in actions:
            ids = list(waiting_for.get(action.image, [])) if isinstance(action, LookForImage) else []
            self._begin(action, ids)

    def _begin(self, action: Action, waiting: list[str]) -> None:
        with self._lock:
            identity = identity_of(action)
            done = isinstance(action, StartTask) and action.spec.task_id in self._started
            if done or identity in self._inflight or self._stopping:
                return
            self._inflight.add(identity)
            if isinstance(action, StartTask):
                self._starting.add(action.spec.task_id)
                self._touched.add(action.spec.task_id)
            if isinstance(action, FetchImage):
                self._fetches[action.image] = time.time()
        pool = self._fetchers if isinstance(action, FetchImage) else self._pool
        pool.submit(self._run, action, waiting)

    def _run(self, action: Action, waiting: list[str]) -> None:
        key = key_of(action)
        try:
            match action:
                case StartTask(spec):
                    self.runtime.start(spec)
                    with self._lock:
                        self._started.add(spec.task_id)
                case StopTask(task_id, grace_s):
                    self.runtime.stop(task_id, grace_s)
                case PauseTask(task_id):
                    self.runtime.pause(task_id)
                case ResumeTask(task_id):
                    self.runtime.resume(task_id)
                case RemoveTask(task_id):
                    self.runtime.remove(task_id)
                    self._retries.pop(task_id, None)
                case LookForImage(image):
                    self._images[image] = self.runtime.has_image(image)
                    if not self._images[image]:
                        self._miss(image, waiting)
                case FetchImage(image, anew):
                    self._check_wanted(image)
                    if anew or not self.runtime.has_image(image):
                        self._follow(key, self._fetch_image(image), lambda: self._check_wanted(image))
                    self._images[image] = True
                    self._unavailable.pop(image, None)
                case FetchCheckpoints(task_id, job_id):
                    with self._dropping:
                        self._bringing.add(job_id)
                    try:
                        self._follow(key, self._fetch_checkpoints(job_id))
                    finally:
                        self._bringing.discard(job_id)
                    self._brought.add(task_id)
            self._retries.pop(key, None)
        except _NotWanted:
            log.info("%s: the fetch of %s ends, no job needs it any more", self.host_id, key)
        except StartRefused as fault:
            self._refuse(action, fault)
        except Exception as fault:
            if isinstance(action, FetchImage):
                self._unavailable[action.image] = str(fault)
            if isinstance(action, LookForImage):
                self._images[action.image] = False  # a fetch looks again, and tells what is wrong
            if not isinstance(fault, RuntimeFault):
                log.exception("%s: %s failed", self.host_id, action)
            tries = self._retries.get(key, (0, 0.0, ""))[0]
            delay = _BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)]
            for each in (key, *waiting):
                self._retries[each] = (tries + 1, time.time() + delay, str(fault))
            later = threading.Timer(delay, self._on_change)
            later.daemon = True
            later.start()
        finally:
            with self._lock:
                self._inflight.discard(identity_of(action))
                if isinstance(action, StartTask):
                    self._starting.discard(action.spec.task_id)
                if isinstance(action, FetchImage):
                    self._asked.discard(action.image)
                    self._fetches.pop(action.image, None)
                self._progress.pop(key, None)
            self._last = None  # whatever is observed next, the loop should see it
            self._poke.set()

    def _follow(self, key: str, progress: Iterator[ImageProgress], check: Callable[[], None] = lambda: None) -> None:
        try:
            for step in progress:
                if self._stopping:
                    raise RuntimeFault("the service ends")  # which breaks it off; the next service begins it again
                check()
                self._progress[key] = step
                self._on_change()
        finally:
            if isinstance(progress, Generator):
                progress.close()

    def _check_wanted(self, image: str) -> None:
        if image not in self._needed and image not in self._asked:
            raise _NotWanted

    def _refuse(self, action: Action, fault: StartRefused) -> None:
        with self._lock:
            if isinstance(action, FetchImage):
                self._unavailable[action.image] = fault.detail
                if not action.anew:  # an image that is there stays good where its registry does not answer
                    self._images[action.image] = False
                    self._refused_images[action.image] = fault.detail
            elif isinstance(action, StartTask) and fault.code != "image_unavailable":
                self._refusals[action.spec.task_id] = Refusal(Reason.START_REFUSED, fault.detail)
        if isinstance(action, StartTask) and fault.code == "image_unavailable":
            self._images[action.spec.image] = False
            self._miss(action.spec.image, [action.spec.task_id])

    def _miss(self, image: str, tasks: list[str]) -> None:
        """An image that tasks were given GPUs for has been removed."""
        refusal = Refusal(Reason.IMAGE_GONE, f"The image {image} is no longer on {self.host_id}.")
        with self._lock:
            self._refusals.update(dict.fromkeys(tasks, refusal))

    def _observe_forever(self) -> None:
        failures = 0
        while not self._stopping:
            self._poke.clear()
            with self._lock:
                self._touched = set(self._starting)
                started = frozenset(self._started)
            before = self._status
            broke, self._broke = self._broke, False
            try:
                facts = before.facts
                if facts is None or before.observation is None:
                    facts = self.runtime.survey()
                    self._images.clear()  # it may be another engine than the one that was looked at
                    self._on_contact(facts)
                tasks = list(self.runtime.observe())
                if before.observation is None or broke:
                    silent = before.observation is None
                    self._outages = [*self._outages[-_OUTAGES:], Outage(self._answered_at, time.time(), silent)]
                self._answered_at = time.time()
                tasks = [through_outages(task, self._outages) for task in tasks]
                with self._lock:
                    maybe = frozenset(self._touched)
                self._status = HostStatus(self.host_id, Observation(tasks, time.time(), maybe, started), "", facts)
                seen: object = (tasks, maybe, started)
                failures = 0
            except Exception as fault:
                if not isinstance(fault, SchedulearnError):
                    log.exception("%s can't be observed", self.host_id)
                since = before.silent_since if before.observation is None else time.time()
                self._status = HostStatus(self.host_id, None, str(fault), before.facts, since)
                seen = str(fault)
                failures += 1
            if seen != self._last:
                self._last = seen
                self._on_change()
            self._poke.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1] if failures else _RESYNC_S)

    def _watch_forever(self) -> None:
        while not self._stopping:
            try:
                for broke in self.runtime.watch():
                    self._broke = self._broke or broke
                    self._poke.set()
                    if self._stopping:
                        return
            except Exception as fault:
                log.debug("%s: watching failed: %s", self.host_id, fault)
            if not self._stopping:
                time.sleep(0.5)
