"""The service's connection to one host, which never makes the loop wait.

Each agent has its own threads to observe the host and to act on it. A slow or dead host delays no other host.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from dataclasses import replace
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
from schedulearn.scheduler.core.needs import Data, Image, Need, needs_of
from schedulearn.scheduler.core.outcomes.blame import Blame
from schedulearn.scheduler.core.outcomes.observations import Refusal
from schedulearn.scheduler.core.planning.reconcile import (
    Action,
    ActionKey,
    CheckNeed,
    FetchCheckpoints,
    FetchNeed,
    NeedArrival,
    PauseTask,
    RemoveTask,
    ResumeTask,
    StartTask,
    StopTask,
    TaskStart,
    action_key,
    goal_of,
)
from schedulearn.scheduler.core.registries import NO_LOGIN
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import HostRefused, ImageUnavailable, ObjectFault, RuntimeFault, StartRefused
from schedulearn.scheduler.hosts.host_checkpoints import HostCheckpoints
from schedulearn.scheduler.hosts.host_needs import Fetch, HostNeeds, NotWanted
from schedulearn.scheduler.hosts.image_access import ImageRights, Unrestricted
from schedulearn.scheduler.hosts.observer import HostObserver, HostStatus
from schedulearn.scheduler.hosts.retries import Retries, Trouble
from schedulearn.scheduler.hosts.starts import Starts
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime, UntrackedFile

log = logging.getLogger(__name__)


class ImageSource(Protocol):
    """Image and id of the login that pulls it -> progress, while the call makes the image present on a host."""

    def __call__(self, image: str, login: int = NO_LOGIN, /) -> Iterator[FetchProgress]: ...


CheckpointSource = Callable[[str], Iterator[FetchProgress]]
"""Job id -> progress, while the call brings the job's checkpoints and outputs to a host."""

OnUntrackedFiles = Callable[[str, Sequence[UntrackedFile]], None]
"""Callback for the untracked files that are deleted with an ended task: task id, files."""


class DataSource(Protocol):
    """Source of data that jobs share, by key."""

    def is_there(self, key: str, runtime: Runtime) -> bool:
        """Return whether the data is on that host, or can be at once."""
        ...

    def fetch(self, key: str, runtime: Runtime) -> Iterator[FetchProgress]:
        """Make the data present on that host, and yield the progress.

        Raises ImageUnavailable if that is impossible."""


class _OnlyThere:
    """Data source that only finds data already on the host."""

    def is_there(self, key: str, runtime: Runtime) -> bool:
        return runtime.data.has(key)

    def fetch(self, key: str, runtime: Runtime) -> Iterator[FetchProgress]:
        raise ImageUnavailable(f"{Data(key)} can't be fetched here")


_ACTIONS = 8  # at a time
_STOPS = 64  # at a time; each takes as long as the job's grace period
_START_TRIES = 4
"""Maximum tries to start a task with GPUs that the engine refuses."""
_PRIVATE = "was pulled with a login that this job does not have: log in with `schedulearn registry login`"
_FETCHES = 3  # at a time; further ones wait for a free thread


class HostAgent:
    """Agent that observes `runtime` and carries out actions on it.

    It calls `on_change` when the loop should check again. `on_contact` gets the facts of the host before the first
    observation, and again each time the host comes back. An exception from it keeps the host from being used.
    `image_source` replaces the runtime's own way to fetch an image. `gpus` returns the known facts of the host's GPUs.
    """

    def __init__(
        self,
        host_id: str,
        runtime: Runtime,
        on_change: Callable[[], None],
        *,
        on_contact: Callable[[HostFacts], None] = lambda facts: None,
        image_source: ImageSource | None = None,
        access: ImageRights | None = None,
        checkpoint_source: CheckpointSource = lambda job_id: iter(()),
        on_untracked_files: OnUntrackedFiles = lambda task_id, files: None,
        data_source: DataSource | None = None,
        gpus: Callable[[], HostGpus] = HostGpus,
        timing: Timing = MACHINE,
    ) -> None:
        self._timing = timing
        self.host_id = host_id
        self.runtime = runtime
        self._on_change = on_change
        self._image_source = image_source or (lambda image, login=NO_LOGIN: runtime.images.fetch(image))
        self._access = access or Unrestricted()
        self._checkpoint_source = checkpoint_source
        self._on_untracked_files = on_untracked_files
        self._data_source = data_source or _OnlyThere()
        self._gpus = gpus
        self._unfit: dict[str, str] = {}
        """Images that this host refused to start with GPUs -> reason. A key is an image and a driver version."""
        self._lock = threading.RLock()
        self._stopping = False
        self._under_way: set[ActionKey] = set()
        self._told_to_pause: set[str] = set()
        self._starts = Starts()
        self._needs = HostNeeds(timing.clock)
        self._checkpoints = HostCheckpoints()
        self._retries = Retries(timing)
        self._observer = HostObserver(host_id, runtime, self._starts, self._needs, on_change, on_contact, timing)
        self._pool = timing.pool(_ACTIONS, f"act-{host_id}")
        self._stoppers = timing.pool(_STOPS, f"stop-{host_id}")
        self._fetchers = timing.pool(_FETCHES, f"fetch-{host_id}")

    def start(self) -> None:
        self._observer.start()

    def close(self) -> None:
        """Stop observing and acting, and wait for actions under way. Tasks keep running."""
        self._stopping = True
        self._observer.stop()
        self.runtime.close()
        for pool in (self._pool, self._stoppers, self._fetchers):
            pool.shutdown(wait=True, cancel_futures=True)
        self._observer.close()

    def poke(self) -> None:
        """Observe now."""
        self._observer.poke()

    def observe(self) -> None:
        """Observe in the caller's thread."""
        self._observer.observe()

    @property
    def status(self) -> HostStatus:
        return self._observer.status

    # Images and data.

    def image_of(self, job: NamesImage) -> str:
        """Return the image, or local environment, that a job needs on this host."""
        image = self.image_here(job.container_image, with_gpus=job.required_gpus > 0)
        return layered(self.runtime.images.name_for(image, job.launcher), job.layer)

    def image_here(self, image: str, *, with_gpus: bool = False) -> str:
        """Return the image that a name stands for on this host.

        A framework's name stands for its image with the CUDA that runs here, or without CUDA. A job `with_gpus` never
        gets the image without CUDA on a host with real GPUs: see `unfit`."""
        if not is_framework(image):
            return image
        gpus = self._gpus()
        cuda = cuda_on(self.host_id, self.status.facts, gpus).cuda if gpus.real else None
        return image_on(image, cuda.name if cuda else CUDAS[0].name if with_gpus and gpus.real else None)

    def unfit(self, job: NamesImage) -> str:
        """Return why a job with GPUs can't run its image here.

        The reason is a sentence without its full stop. It is empty if no obstacle is known."""
        gpus = self._gpus()
        if not job.required_gpus or not gpus.real:
            return ""
        if lacks_cuda(job.container_image):
            return f"{job.container_image} does not exist with CUDA: use your own image"
        if is_framework(job.container_image) and (why := cuda_on(self.host_id, self.status.facts, gpus).why):
            return why
        return self._unfit.get(f"{self.image_of(job)} {gpus.driver}", "")

    def needs_of(self, job: NeedsData) -> tuple[Need, ...]:
        """Return the image and data that must be here before a job starts."""
        return needs_of(self.image_of(job), job.inputs, self.login_of(job))

    def login_of(self, job: NeedsData) -> int:
        """Return the id of the login with which the job's image is pulled here; `NO_LOGIN`: none of its user's."""
        facts = self.status.facts
        if facts is not None and not facts.isolates:
            return NO_LOGIN  # local processes have no images
        return self._access.login_of(job.user or "", job.container_image)

    def data_seen_at(self, key: str, target: str) -> str:
        return self.runtime.data.seen_at(key, target)

    def has(self, need: Need) -> bool:
        """Return whether a need is known to be here."""
        return self.knows(need) is True

    def knows(self, need: Need) -> bool | None:
        """Return whether a need is here; None: not checked yet."""
        return self._needs.is_there(need)

    def check(self, need: Need) -> None:
        """Begin to check whether a need is here."""
        self._begin(CheckNeed(need))

    def fetch_under_way(self, need: Need) -> Fetch | None:
        return self._needs.fetch_under_way(need)

    def fetch(self, image: str, *, anew: bool = False) -> None:
        """Begin to fetch an image that was requested for this host.

        An image that is already here is fetched only if `anew`. `fetches` returns the reason of a failure."""
        need = Image(self.image_here(image))
        with self._lock:  # the end of another fetch of this image forgets the request
            self._needs.ask_for(need)
            self._begin(FetchNeed(need, anew))

    def fetched_since(self, need: Need, instant: float) -> bool:
        """Return whether a successful fetch of the need began at or after an instant."""
        return self._needs.fetched_since(need, instant)

    def fetch_for_jobs(self, needs: Set[Need], anew: Set[Need]) -> None:
        """Begin to fetch the needs of jobs that wait for them here.

        After a recent failure, a need waits for its next try. Images in `anew` are fetched even if they are here. A
        fetch that no job needs any more is aborted, unless it was requested by `fetch`."""
        self._needs.keep_wanted(needs)
        for need in sorted(needs, key=str):
            if self._timing.clock() >= self.fetch_trouble(need).not_before:
                self._begin(FetchNeed(need, need in anew))

    def may_fetch(self, need: Need) -> bool:
        """Return False after a permanent failure to fetch the need."""
        return not self._needs.has_failed(need) or bool(self.fetch_trouble(need).why)

    def fetches(self) -> dict[Need, FetchProgress | str]:
        """Return the progress of each fetch, or why the last fetch failed."""
        return self._needs.fetches()

    def may_share(self, image: str, login: int) -> bool:
        """Ask the host whether it has an image that a job with this login may use."""
        return self._is_there(Image(image, login))

    def fetch_trouble(self, need: Need) -> Trouble:
        """Return the temporary failure of a fetch."""
        return self._retries.trouble(NeedArrival(need))

    def take_refused_fetches(self) -> dict[Need, str]:
        """Return the permanent fetch failures since the last call, with their reasons."""
        return self._needs.take_refusals()

    def forget(self, need: Need) -> None:
        """Remove an image or data, so that its next use fetches it again.

        An image that a container uses stays."""
        self._needs.forget(need)
        match need:
            case Image(name):
                self.runtime.images.remove(name)
            case Data(key):
                self.runtime.data.drop(key)

    # Checkpoints.

    def has_checkpoints(self, task_id: str) -> bool:
        """Return whether the job's checkpoints were brought here for this task."""
        return self._checkpoints.are_there(task_id)

    def bringing(self, task_id: str) -> FetchProgress | None:
        """Return the progress of checkpoints for this task; None: none are under way."""
        return self._checkpoints.progress(task_id)

    def drop_checkpoints(self, job_id: str, may_go: Callable[[], bool]) -> None:
        """Delete a job's checkpoints if they `may_go` and none are being brought.

        No checkpoints can begin to arrive until the deletion is done."""
        self._checkpoints.drop(job_id, may_go, self.runtime.checkpoints.drop)

    def drop_outputs(self, job_id: str, may_go: Callable[[], bool]) -> None:
        """Delete a job's outputs, as `drop_checkpoints`: outputs are brought together with checkpoints."""
        self._checkpoints.drop(job_id, may_go, self.runtime.outputs.drop)

    # Tasks.

    def take_refusals(self) -> dict[str, Refusal]:
        """Return the permanent start failures since the last call, by task id."""
        return self._starts.take_refusals()

    @property
    def told_to_pause(self) -> Set[str]:
        """Live tasks that this agent was told to pause."""
        with self._lock:
            return frozenset(self._told_to_pause)

    def start_trouble(self, task_id: str) -> Trouble:
        """Return the temporary failure of a task's start."""
        return self._retries.trouble(TaskStart(task_id))

    def act(self, actions: Sequence[Action], waiting_for: dict[Need, list[str]]) -> None:
        """Begin the `actions` that are not under way.

        `waiting_for`: need -> ids of its tasks. It holds all tasks of this host that have not ended. The agent forgets
        what it knows of other tasks."""
        live = {task_id for ids in waiting_for.values() for task_id in ids}
        self._starts.keep_only(live)
        with self._lock:
            self._told_to_pause &= live
        self._checkpoints.keep_only(live)
        for action in actions:
            waiting = tuple(waiting_for.get(action.need, ())) if isinstance(action, CheckNeed) else ()
            self._begin(action, waiting)

    def stop_task(self, task_id: str, grace_s: float) -> None:
        """Begin to stop a task, regardless of earlier decisions."""
        self._begin(StopTask(task_id, grace_s))

    def _begin(self, action: Action, waiting: Sequence[str] = ()) -> None:
        """Begin an action, unless it is under way, done, or too early.

        `waiting`: ids of the tasks that wait for the need that the action checks."""
        with self._lock:
            key = action_key(action)
            done = isinstance(action, StartTask) and self._starts.has_succeeded(action.spec.task_id)
            # Removing a task whose start is under way would let it start a second time, if it has run already.
            too_soon = isinstance(action, RemoveTask) and self._starts.is_under_way(action.task_id)
            if done or too_soon or key in self._under_way or self._stopping:
                return
            self._under_way.add(key)
            if isinstance(action, PauseTask):
                self._told_to_pause.add(action.task_id)
            if isinstance(action, StartTask):
                self._starts.begin(action.spec.task_id, self._timing.clock())
            if isinstance(action, FetchNeed):
                self._needs.begin_fetch(action.need)
        pools = {FetchNeed: self._fetchers, StopTask: self._stoppers}
        pools.get(type(action), self._pool).submit(self._run, action, waiting)

    def _run(self, action: Action, waiting: Sequence[str]) -> None:
        try:
            self._do(action, waiting)
            self._retries.forget(goal_of(action))
        except NotWanted:
            log.info("%s: %s stopped, no job needs it any more", self.host_id, action)
        except StartRefused as fault:
            self._refuse(action, fault)
        except Exception as fault:
            self._try_later(action, waiting, fault)
        finally:
            self._end(action)

    def _do(self, action: Action, waiting: Sequence[str]) -> None:
        match action:
            case StartTask(spec):
                self.runtime.start(self._of_allowed_image(spec))
                self._starts.succeed(spec.task_id)
            case StopTask(task_id, grace_s):
                self.runtime.stop(task_id, grace_s)
            case PauseTask(task_id):
                self.runtime.pause(task_id)
            case ResumeTask(task_id):
                self.runtime.resume(task_id)
            case RemoveTask(task_id):
                self._tell_untracked_files(task_id)
                self.runtime.remove(task_id)
                self._retries.forget(TaskStart(task_id))
            case CheckNeed(need):
                self._check(need, waiting)
            case FetchNeed(need, anew):
                self._fetch(need, anew)
            case FetchCheckpoints(task_id, job_id):
                self._bring_checkpoints(task_id, job_id)

    def _of_allowed_image(self, spec: TaskSpec) -> TaskSpec:
        """Return the task with the id of its image, where that matters. Raises ImageUnavailable.

        Since the image was checked, its name may have come to mean an image of somebody else."""
        image_id = self._access.allowed_id(spec.image, spec.login)
        if image_id is None:
            raise ImageUnavailable(f"image {spec.image!r} on {self.host_id} {_PRIVATE}")
        return replace(spec, image_id=image_id) if image_id else spec

    def _tell_untracked_files(self, task_id: str) -> None:
        """Report the untracked files of an ended task before they are deleted.

        If this fails, the task is removed all the same. Only while the service ends, RuntimeFault keeps the task: then
        the next service reports the files."""
        try:
            if files := self.runtime.untracked_files(task_id):
                self._on_untracked_files(task_id, files)
        except Exception as fault:
            if self._stopping:
                raise RuntimeFault("the service is stopping") from fault
            log.warning("%s: can't list the files that %s wrote to its own disk: %s", self.host_id, task_id, fault)

    def _check(self, need: Need, waiting: Sequence[str]) -> None:
        there = self._is_there(need)
        self._needs.note(need, there)
        if not there:
            self._miss(need, waiting)

    def _fetch(self, need: Need, anew: bool) -> None:
        def note(progress: FetchProgress) -> None:
            self._needs.check_wanted(need)
            self._needs.note_progress(need, progress)

        self._needs.check_wanted(need)
        if anew and isinstance(need, Image):
            base, layer = split_layered(need.name)
            if layer:
                self._follow(self._image_source(base, need.login), note)
        if anew or not self._is_there(need):
            self._follow(self._source_of(need), note)
            self._check_access(need)
            self._needs.note_fetch(need)
        self._needs.arrive(need)

    def _check_access(self, need: Need) -> None:
        """Raise ImageUnavailable for an image that no pull brings, and that rests on one that is private."""
        if isinstance(need, Image) and self._access.allowed_id(need.name, need.login) is None:
            raise ImageUnavailable(f"image {need.name!r} on {self.host_id} {_PRIVATE}")

    def _is_there(self, need: Need) -> bool:
        match need:
            case Image(name, login):
                return self.runtime.images.has(name) and self._access.allowed_id(name, login) is not None
            case Data(key):
                return self._data_source.is_there(key, self.runtime)

    def _source_of(self, need: Need) -> Iterator[FetchProgress]:
        match need:
            case Image(name, login):
                return self._image_source(name, login)
            case Data(key):
                return self._data_source.fetch(key, self.runtime)

    def _bring_checkpoints(self, task_id: str, job_id: str) -> None:
        with self._checkpoints.bring(task_id, job_id):
            self._follow(self._checkpoint_source(job_id), partial(self._checkpoints.note_progress, task_id))

    def _follow(self, progress: Iterator[FetchProgress], note: Callable[[FetchProgress], None]) -> None:
        """Consume `progress` to its end, or until `note` raises.

        The end of the service aborts it with RuntimeFault. The next service begins it again."""
        try:
            for step in progress:
                if self._stopping:
                    raise RuntimeFault("the service is stopping")
                note(step)
                self._on_change()
        finally:
            if isinstance(progress, Generator):
                progress.close()

    def _refuse(self, action: Action, fault: StartRefused) -> None:
        """Record a permanent failure: no retry can help."""
        match action:
            case FetchNeed(need, anew):
                self._needs.refuse(need, fault.detail, anew=anew)
                self._retries.forget(goal_of(action))  # an earlier temporary failure would allow further tries
            case StartTask(TaskSpec(task_id=task_id, image=image) as spec) if isinstance(fault, ImageUnavailable):
                for need in needs_of(image, spec.data, spec.login):
                    self._needs.note(need, False)  # a fetch checks which of them is missing
                self._starts.refuse([task_id], Refusal(Reason.IMAGE_GONE, fault.detail))
            case StartTask(TaskSpec(task_id=task_id, image=image)) if isinstance(fault, HostRefused):
                if fault.blame == Blame.IMAGE:
                    self._unfit[f"{image} {self._gpus().driver}"] = fault.detail
                self._starts.refuse([task_id], Refusal(Reason.HOST_FAULT, fault.detail, Blame(fault.blame)))
            case StartTask(TaskSpec(task_id=task_id)):
                self._starts.refuse([task_id], Refusal(Reason.START_REFUSED, fault.detail))

    def _miss(self, need: Need, task_ids: Sequence[str]) -> None:
        """Refuse tasks that hold GPUs, because their image or data has been removed."""
        what = str(need)
        refusal = Refusal(Reason.IMAGE_GONE, f"{what[0].upper()}{what[1:]} is no longer on {self.host_id}.")
        self._starts.refuse(task_ids, refusal)

    def _try_later(self, action: Action, waiting: Sequence[str], fault: Exception) -> None:
        if isinstance(action, FetchNeed):
            self._needs.fail(action.need, str(fault))
        if isinstance(action, CheckNeed):
            self._needs.note(action.need, False)  # a fetch checks again, and reports the error
        if not isinstance(fault, RuntimeFault):
            log.exception("%s: %s failed", self.host_id, action)
        delay = self._retries.put_off(goal_of(action), str(fault), map(TaskStart, waiting))
        self._leave_to_others(action, fault)
        self._timing.later(delay, self._on_change)

    def _leave_to_others(self, action: Action, fault: Exception) -> None:
        """Give up a start with GPUs that the engine refused `_START_TRIES` times.

        The job moves to another host and releases its GPUs here."""
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
            if isinstance(action, FetchNeed):
                self._needs.end_fetch(action.need)
        self._observer.report_anew()
