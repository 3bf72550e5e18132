"""The service's connection to one host: it observes and acts there without ever making the loop wait.

Each agent has its own threads for observing and for acting, so that a slow or dead host delays nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from functools import partial
from typing import Protocol

from schedulearn.scheduler.background import MACHINE, Timing
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import (
    CUDAS,
    HostGpus,
    NamesImage,
    NeedsData,
    cuda_on,
    image_on,
    is_framework,
    lacks_cuda,
    layered,
    split_layered,
)
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.outcomes.observations import Refusal
from schedulearn.scheduler.core.planning.reconcile import (
    Action,
    ActionKey,
    FetchCheckpoints,
    FetchImage,
    ImageArrival,
    LookForImage,
    PauseTask,
    RemoveTask,
    ResumeTask,
    StartTask,
    StopTask,
    TaskStart,
    action_key,
    goal_of,
)
from schedulearn.scheduler.core.planning.shared_data import described, key_of_need, need_of, needs_of
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import HostRefused, ImageUnavailable, ObjectFault, RuntimeFault, StartRefused
from schedulearn.scheduler.hosts.host_checkpoints import HostCheckpoints
from schedulearn.scheduler.hosts.host_images import Fetch, HostImages, NotWanted
from schedulearn.scheduler.hosts.observer import HostObserver, HostStatus
from schedulearn.scheduler.hosts.retries import Retries, Trouble
from schedulearn.scheduler.hosts.starts import Starts
from schedulearn.scheduler.runtimes.contract import ImageProgress, Runtime, StrayFile

log = logging.getLogger(__name__)

ImageSource = Callable[[str], Iterator[ImageProgress]]
"""Image -> makes it present on a host, and tells how far that is."""
CheckpointSource = Callable[[str], Iterator[ImageProgress]]
"""Job id -> brings its checkpoints and outputs to a host, and tells how far that is."""

OnStrayFiles = Callable[[str, Sequence[StrayFile]], None]
"""Told of files that go with an ended task, by its id."""


class DataSource(Protocol):
    """How data that jobs share comes to a host, by its key."""

    def is_there(self, key: str, runtime: Runtime) -> bool:
        """Whether it is on that host, or can be at once."""
        ...

    def fetch(self, key: str, runtime: Runtime) -> Iterator[ImageProgress]:
        """Makes it present there, and tells how far that is. Raises ImageUnavailable if it can't be had."""


class _OnlyThere:
    """None comes."""

    def is_there(self, key: str, runtime: Runtime) -> bool:
        return runtime.data.has(key)

    def fetch(self, key: str, runtime: Runtime) -> Iterator[ImageProgress]:
        raise ImageUnavailable(f"{described(need_of(key))} can't be had here")


_ACTIONS = 8  # at a time
_START_TRIES = 4
"""Of one task with GPUs, where the engine says no."""
_FETCHES = 3  # at a time; further ones wait for their turn


class HostAgent:
    """Observes `runtime` and carries out actions on it; calls `on_change` when the loop should look again.

    `on_contact` is told what the host says of itself before it is first observed, and again each time that it comes
    back; what it raises keeps the host from being used. `image_source` replaces the runtime's own way to an image.
    `gpus`: what is known of its GPUs.
    """

    def __init__(
        self,
        host_id: str,
        runtime: Runtime,
        on_change: Callable[[], None],
        *,
        on_contact: Callable[[HostFacts], None] = lambda facts: None,
        image_source: ImageSource | None = None,
        checkpoint_source: CheckpointSource = lambda job_id: iter(()),
        on_stray_files: OnStrayFiles = lambda task_id, files: None,
        data_source: DataSource | None = None,
        gpus: Callable[[], HostGpus] = HostGpus,
        timing: Timing = MACHINE,
    ) -> None:
        self._timing = timing
        self.host_id = host_id
        self.runtime = runtime
        self._on_change = on_change
        self._image_source = image_source or runtime.images.fetch
        self._checkpoint_source = checkpoint_source
        self._on_stray_files = on_stray_files
        self._data_source = data_source or _OnlyThere()
        self._gpus = gpus
        self._unfit: dict[str, str] = {}
        """Images that this host refused to start with GPUs, and why."""
        self._lock = threading.Lock()
        self._stopping = False
        self._under_way: set[ActionKey] = set()
        self._told_to_pause: set[str] = set()
        self._starts = Starts()
        self._images = HostImages(timing.clock)
        self._checkpoints = HostCheckpoints()
        self._retries = Retries(timing)
        self._observer = HostObserver(host_id, runtime, self._starts, self._images, on_change, on_contact, timing)
        self._pool = timing.pool(_ACTIONS, f"act-{host_id}")
        self._fetchers = timing.pool(_FETCHES, f"fetch-{host_id}")

    def start(self) -> None:
        self._observer.start()

    def close(self) -> None:
        """Stops observing and acting; tasks go on. Waits for actions under way."""
        self._stopping = True
        self._observer.stop()
        self.runtime.close()
        for pool in (self._pool, self._fetchers):
            pool.shutdown(wait=True, cancel_futures=True)
        self._observer.close()

    def poke(self) -> None:
        """Observe now."""
        self._observer.poke()

    def observe(self) -> None:
        """Observes here, in the caller's thread."""
        self._observer.observe()

    @property
    def status(self) -> HostStatus:
        return self._observer.status

    # Images.

    def image_of(self, job: NamesImage) -> str:
        """The image, or local environment, that a job needs here."""
        image = self.image_here(job.container_image, with_gpus=job.required_gpus > 0)
        return layered(self.runtime.images.name_for(image, job.launcher), job.layer)

    def image_here(self, image: str, *, with_gpus: bool = False) -> str:
        """What a name stands for on this host: that of a framework means its image with the CUDA that runs here, or the
        one without. Never that for a job `with_gpus` of real GPUs: see `unfit`."""
        if not is_framework(image):
            return image
        gpus = self._gpus()
        cuda = cuda_on(self.host_id, self.status.facts, gpus).cuda if gpus.real else None
        return image_on(image, cuda.name if cuda else CUDAS[0].name if with_gpus and gpus.real else None)

    def unfit(self, job: NamesImage) -> str:
        """Why a job with GPUs can't run its image here, as a sentence without its end; empty: it can, as far as is
        known."""
        gpus = self._gpus()
        if not job.required_gpus or not gpus.real:
            return ""
        if lacks_cuda(job.container_image):
            return f"there is no {job.container_image} with CUDA: use an image of your own"
        if is_framework(job.container_image) and (why := cuda_on(self.host_id, self.status.facts, gpus).why):
            return why
        return self._unfit.get(f"{self.image_of(job)} {gpus.driver}", "")

    def needs_of(self, job: NeedsData) -> tuple[str, ...]:
        """The names of all that must be here before a job starts: its image, and data. All that is said of images
        below goes for data too."""
        return needs_of(self.image_of(job), job.inputs)

    def data_seen_at(self, key: str, target: str) -> str:
        return self.runtime.data.seen_at(key, target)

    def has_image(self, image: str) -> bool:
        """Whether tasks with this image can start at once, as far as is known."""
        return self.knows_image(image) is True

    def knows_image(self, image: str) -> bool | None:
        """Whether the image is there; None: nobody has looked yet."""
        return self._images.is_there(image)

    def look_for(self, image: str) -> None:
        """Begins to find out whether an image is there."""
        self._begin(LookForImage(image))

    def fetch_under_way(self, image: str) -> Fetch | None:
        return self._images.fetch_under_way(image)

    def fetch(self, image: str, *, anew: bool = False) -> None:
        """Begins to fetch an image because somebody wants it here; one that is there only if `anew`. `fetches` says
        whether it can't be had."""
        image = self.image_here(image)
        self._images.ask_for(image)
        self._begin(FetchImage(image, anew))

    def fetched_since(self, image: str, instant: float) -> bool:
        """Whether a fetch of it that has succeeded began after that."""
        return self._images.fetched_since(image, instant)

    def fetch_for_jobs(self, images: Set[str], anew: Set[str]) -> None:
        """Begins to fetch the images that jobs wait for here, unless they failed a moment ago; those of `anew` also if
        they are there. A fetch for a job that needs it no more is broken off."""
        self._images.need(images)
        for image in sorted(images):
            if self._timing.clock() >= self.image_trouble(image).not_before:
                self._begin(FetchImage(image, image in anew))

    def may_fetch(self, image: str) -> bool:
        """False after a fetch that has failed for good."""
        return not self._images.has_failed(image) or bool(self.image_trouble(image).why)

    def fetches(self) -> dict[str, ImageProgress | str]:
        """Image -> how far its fetch is, or why the last one failed."""
        return self._images.fetches()

    def image_trouble(self, image: str) -> Trouble:
        """What kept an image from being fetched."""
        return self._retries.trouble(ImageArrival(image))

    def take_refused_images(self) -> dict[str, str]:
        """Images of which a fetch has failed for good since the last call, with the reason."""
        return self._images.take_refusals()

    def forget_image(self, image: str) -> None:
        """Removes an image, so that its next use fetches it again. What a container has stays."""
        self._images.forget(image)
        key = key_of_need(image)
        self.runtime.images.remove(image) if key is None else self.runtime.data.drop(key)

    # Checkpoints.

    def has_checkpoints(self, task_id: str) -> bool:
        """Whether its job's were brought here for this task."""
        return self._checkpoints.are_there(task_id)

    def bringing(self, task_id: str) -> ImageProgress | None:
        """How far the checkpoints for this task are; None while none are under way."""
        return self._checkpoints.progress(task_id)

    def drop_checkpoints(self, job_id: str, may_go: Callable[[], bool]) -> None:
        """Those of a job that has none brought here just now, if they `may_go`: none comes before they went."""
        self._checkpoints.drop(job_id, may_go, self.runtime.checkpoints.drop)

    def drop_outputs(self, job_id: str, may_go: Callable[[], bool]) -> None:
        """As `drop_checkpoints`: outputs are brought with them."""
        self._checkpoints.drop(job_id, may_go, self.runtime.outputs.drop)

    # Tasks.

    def take_refusals(self) -> dict[str, Refusal]:
        """Starts that failed for good since the last call, by task id."""
        return self._starts.take_refusals()

    @property
    def told_to_pause(self) -> Set[str]:
        """Tasks that were to be paused, of those that are live."""
        with self._lock:
            return frozenset(self._told_to_pause)

    def start_trouble(self, task_id: str) -> Trouble:
        """What kept a task from being started."""
        return self._retries.trouble(TaskStart(task_id))

    def act(self, actions: Sequence[Action], waiting_for: dict[str, list[str]]) -> None:
        """Begins `actions` that are not under way. `waiting_for`: image -> ids of the tasks that have it, of all tasks
        of this host that have not ended; what is known of others is forgotten."""
        live = {task_id for ids in waiting_for.values() for task_id in ids}
        self._starts.keep_only(live)
        with self._lock:
            self._told_to_pause &= live
        self._checkpoints.keep_only(live)
        for action in actions:
            waiting = tuple(waiting_for.get(action.image, ())) if isinstance(action, LookForImage) else ()
            self._begin(action, waiting)

    def stop_task(self, task_id: str, grace_s: float) -> None:
        """Begins to stop a task, whatever was decided before."""
        self._begin(StopTask(task_id, grace_s))

    def _begin(self, action: Action, waiting: Sequence[str] = ()) -> None:
        """`waiting`: ids of tasks that wait for the image that the action looks for."""
        with self._lock:
            key = action_key(action)
            done = isinstance(action, StartTask) and self._starts.has_succeeded(action.spec.task_id)
            # Who removes a task that is about to be started lets it start a second time, should it have run already.
            too_soon = isinstance(action, RemoveTask) and self._starts.is_under_way(action.task_id)
            if done or too_soon or key in self._under_way or self._stopping:
                return
            self._under_way.add(key)
            if isinstance(action, PauseTask):
                self._told_to_pause.add(action.task_id)
            if isinstance(action, StartTask):
                self._starts.begin(action.spec.task_id, self._timing.clock())
            if isinstance(action, FetchImage):
                self._images.begin_fetch(action.image)
        pool = self._fetchers if isinstance(action, FetchImage) else self._pool
        pool.submit(self._run, action, waiting)

    def _run(self, action: Action, waiting: Sequence[str]) -> None:
        try:
            self._do(action, waiting)
            self._retries.forget(goal_of(action))
        except NotWanted:
            log.info("%s: %s ends, no job needs the image any more", self.host_id, action)
        except StartRefused as fault:
            self._refuse(action, fault)
        except Exception as fault:
            self._try_later(action, waiting, fault)
        finally:
            self._end(action)

    def _do(self, action: Action, waiting: Sequence[str]) -> None:
        match action:
            case StartTask(spec):
                self.runtime.start(spec)
                self._starts.succeed(spec.task_id)
            case StopTask(task_id, grace_s):
                self.runtime.stop(task_id, grace_s)
            case PauseTask(task_id):
                self.runtime.pause(task_id)
            case ResumeTask(task_id):
                self.runtime.resume(task_id)
            case RemoveTask(task_id):
                self._tell_stray_files(task_id)
                self.runtime.remove(task_id)
                self._retries.forget(TaskStart(task_id))
            case LookForImage(image):
                self._look_for(image, waiting)
            case FetchImage(image, anew):
                self._fetch(image, anew)
            case FetchCheckpoints(task_id, job_id):
                self._bring_checkpoints(task_id, job_id)

    def _tell_stray_files(self, task_id: str) -> None:
        """Before they go. Only the end of the service keeps the task: the next service tells of them."""
        try:
            if files := self.runtime.stray_files(task_id):
                self._on_stray_files(task_id, files)
        except Exception as fault:
            if self._stopping:
                raise RuntimeFault("the service ends") from fault
            log.warning("%s: what %s wrote to its own disk is not known: %s", self.host_id, task_id, fault)

    def _look_for(self, image: str, waiting: Sequence[str]) -> None:
        there = self._is_there(image)
        self._images.note(image, there)
        if not there:
            self._miss(image, waiting)

    def _fetch(self, image: str, anew: bool) -> None:
        def note(progress: ImageProgress) -> None:
            self._images.check_wanted(image)
            self._images.note_progress(image, progress)

        self._images.check_wanted(image)
        base, layer = split_layered(image)
        if anew and layer:
            self._follow(self._image_source(base), note)
        if anew or not self._is_there(image):
            self._follow(self._source_of(image), note)
            self._images.note_fetch(image)
        self._images.arrive(image)

    def _is_there(self, image: str) -> bool:
        key = key_of_need(image)
        return self.runtime.images.has(image) if key is None else self._data_source.is_there(key, self.runtime)

    def _source_of(self, image: str) -> Iterator[ImageProgress]:
        key = key_of_need(image)
        return self._image_source(image) if key is None else self._data_source.fetch(key, self.runtime)

    def _bring_checkpoints(self, task_id: str, job_id: str) -> None:
        with self._checkpoints.bring(task_id, job_id):
            self._follow(self._checkpoint_source(job_id), partial(self._checkpoints.note_progress, task_id))

    def _follow(self, progress: Iterator[ImageProgress], note: Callable[[ImageProgress], None]) -> None:
        """To its end, or until `note` raises. The end of the service breaks it off; the next one begins it again."""
        try:
            for step in progress:
                if self._stopping:
                    raise RuntimeFault("the service ends")
                note(step)
                self._on_change()
        finally:
            if isinstance(progress, Generator):
                progress.close()

    def _refuse(self, action: Action, fault: StartRefused) -> None:
        """No second try can help."""
        match action:
            case FetchImage(image, anew):
                self._images.refuse(image, fault.detail, anew=anew)
            case StartTask(TaskSpec(task_id=task_id, image=image) as spec) if isinstance(fault, ImageUnavailable):
                for need in needs_of(image, spec.data):
                    self._images.note(need, False)  # a fetch looks again which of them it is
                self._starts.refuse([task_id], Refusal(Reason.IMAGE_GONE, fault.detail))
            case StartTask(TaskSpec(task_id=task_id, image=image)) if isinstance(fault, HostRefused):
                if fault.blame == Blame.IMAGE:
                    self._unfit[f"{image} {self._gpus().driver}"] = fault.detail
                self._starts.refuse([task_id], Refusal(Reason.HOST_FAULT, fault.detail, Blame(fault.blame)))
            case StartTask(TaskSpec(task_id=task_id)):
                self._starts.refuse([task_id], Refusal(Reason.START_REFUSED, fault.detail))

    def _miss(self, image: str, task_ids: Sequence[str]) -> None:
        """An image that tasks were given GPUs for has been removed."""
        what = described(image)
        refusal = Refusal(Reason.IMAGE_GONE, f"{what[0].upper()}{what[1:]} is no longer on {self.host_id}.")
        self._starts.refuse(task_ids, refusal)

    def _try_later(self, action: Action, waiting: Sequence[str], fault: Exception) -> None:
        if isinstance(action, FetchImage):
            self._images.fail(action.image, str(fault))
        if isinstance(action, LookForImage):
            self._images.note(action.image, False)  # a fetch looks again, and tells what is wrong
        if not isinstance(fault, RuntimeFault):
            log.exception("%s: %s failed", self.host_id, action)
        delay = self._retries.put_off(goal_of(action), str(fault), map(TaskStart, waiting))
        self._leave_to_others(action, fault)
        self._timing.later(delay, self._on_change)

    def _leave_to_others(self, action: Action, fault: Exception) -> None:
        """A start with GPUs that the engine refuses again and again: the job goes elsewhere, and holds none here."""
        if isinstance(action, StartTask) and action.spec.gpu_uuids and isinstance(fault, ObjectFault):
            task_id = action.spec.task_id
            if self._retries.trouble(TaskStart(task_id)).tries >= _START_TRIES:
                why = f"on {self.host_id} its start failed {_START_TRIES} times: {fault}".rstrip(".")
                self._starts.refuse([task_id], Refusal(Reason.HOST_FAULT, why, Blame.HOST, counts_as="unknown cause"))

    def _end(self, action: Action) -> None:
        with self._lock:
            self._under_way.discard(action_key(action))
            if isinstance(action, StartTask):
                self._starts.end(action.spec.task_id)
            if isinstance(action, FetchImage):
                self._images.end_fetch(action.image)
        self._observer.report_anew()
