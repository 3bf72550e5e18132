"""What is expected of the live cluster: each job's start and end, kept up to date in a thread of its own, and what
another policy would change. Nothing here writes to the database or holds up the loop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.cluster_state import ClusterState
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.host_scaling import Switching
from schedulearn.scheduler.core.job_image import NeedsData
from schedulearn.scheduler.core.model import Basis, Explanation, JobView, Snapshot
from schedulearn.scheduler.core.outcomes.retries import next_tries
from schedulearn.scheduler.core.planning.cpu_only import CpuOnly, NewJob, without_cpu_only
from schedulearn.scheduler.core.planning.placement import gpu_memory
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota, Quotas, used_up
from schedulearn.scheduler.core.planning.remaining_work import by_family
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.predictions.features import Given
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.errors import PolicyFault
from schedulearn.scheduler.reports.profiles import Profiles
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.accounts import has_accounts
from schedulearn.scheduler.store.people.visibility import seeing_all
from schedulearn.scheduler.store.resources.gpu_memory import predicted_needs

if TYPE_CHECKING:  # the simulator loads NumPy: only for those who have jobs
    from schedulearn.scheduler.sim.forecast import Eta, Facts
    from schedulearn.scheduler.sim.preview import Played, Totals

log = logging.getLogger(__name__)

HORIZON_S = 7 * 86_400.0
PREVIEW_S = 1.0  # of the processor, a policy: one that needs longer has no figures
COMPARE_S = 8.0  # of computing, a comparison
MOST_COMPARED = 500
"""Jobs that are played on in a comparison: those that have GPUs, then the oldest ones."""
PREVIEW_WALL_S = 10.0  # so long at most it may wait for the processor
ETA_S = 0.7  # of computing, each time
EVERY_S = 10.0  # at most, where something changed
STALE_S = 60.0  # where nothing did: guesses grow with the time that a job has run
KEPT_S = 600.0  # so old a prediction may be if none could be made since
_UNBORN = "~"  # sorts behind every id: a job that is submitted now comes after those that there are
_BUSY_S = 5.0  # for so long at most, a prediction waits until nothing more changes
_LOOK_S = 0.5  # between looks at whether anything did: one small query
_SHARE = 0.005  # seconds of computing after which the processor is left to others for a moment


_Seen = tuple[int, int, Mapping[str, Quota], Mapping[str, Bounds], Mapping[str, str]]


@dataclass(frozen=True)
class Etas:
    """What was expected of all jobs at one time."""

    at: float = 0.0
    until: float = 0.0
    """Up to when it was looked at, seconds since the epoch; infinite if to the end."""
    jobs: Mapping[str, Eta] = field(default_factory=dict)


class StoppedError(Exception):
    """Nobody waits for the answer any more."""


class Figures(NamedTuple):
    """What is kept of one policy in a comparison. The whole course of each would be much to look through for the
    garbage collector, during which nobody is answered."""

    totals: Totals | None
    cut: str
    jobs: int
    left_out: int


@dataclass(frozen=True)
class Compared:
    """What policies would make of one state. `beyond`: jobs beyond MOST_COMPARED."""

    until: float
    found: Sequence[Figures | PolicyFault]
    beyond: int


class Forecaster:
    """`reachable` gives the hosts that answer, `image_in` the seconds until the image of a job is there, which
    these hosts fetch. `close` ends the thread."""

    def __init__(
        self,
        db: Database,
        policy: Callable[[], Policy],
        profiles: Profiles,
        reachable: Callable[[], set[str]],
        utilization: Callable[[str], float | None],
        image_in: Callable[[NeedsData, Sequence[str]], float],
        *,
        host_facts: Callable[[], Mapping[str, HostFacts | None]] = dict,
        cpu_jobs: int = 0,
        quotas: Callable[[], Quotas] = Quotas,
        switching: Switching | None = None,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.etas = Etas()
        """As of the last time; replaced as a whole."""
        self._db = db
        self._policy = policy
        self._profiles = profiles
        self._reachable = reachable
        self._utilization = utilization
        self._image_in = image_in
        self._host_facts = host_facts
        self._cpu_jobs = cpu_jobs
        self._quotas = quotas
        self._switching = switching
        self._every_s = every_s
        self._clock = clock
        self._seen: _Seen | None = None
        self._problem = ""
        self._before: _Seen | None = None
        """What `_changes` said at the last look."""
        self._busy_since: float | None = None
        self._thread = Background("forecaster", self._run, first_s=_LOOK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close(timeout=10)

    @seeing_all()
    def preview(self, policy: Policy, horizon_s: float) -> tuple[Played, Played, Mapping[str, Facts]]:
        """What the policy in force would do within `horizon_s`, and what `policy` would. Takes seconds at most; raises
        PolicyFault if either can't be played."""
        state, at = self._state(), self._clock()
        now, _ = self._play(self._policy(), state, at, horizon_s)
        then, facts = self._play(policy, state, at, horizon_s)
        return now, then, facts

    @seeing_all()
    def compare(
        self, others: Sequence[Policy], horizon_s: float, stopped: Callable[[], bool] = lambda: False
    ) -> Compared:
        """What the policy in force and each of the others would do within `horizon_s`, from one state on. Computes for
        COMPARE_S: policies share what is left of it. `stopped`: nobody waits for it any more; raises StoppedError."""
        state, at = self._state(), self._clock()
        policies = [self._policy(), *others]
        found: list[Figures | PolicyFault] = []
        beyond, end = 0, time.thread_time() + COMPARE_S
        for index, policy in enumerate(policies):
            if stopped():
                raise StoppedError
            share = max(0.0, end - time.thread_time()) / (len(policies) - index)
            try:
                played, facts = self._play(policy, state, at, horizon_s, min(PREVIEW_S, share), MOST_COMPARED, stopped)
                course = played.forecast
                found.append(Figures(played.totals, course.cut, len(course.etas), played.left_out))
                beyond = max(beyond, sum(1 for job in state.jobs.values() if job.required_gpus) - len(facts))
            except PolicyFault as fault:
                found.append(fault)
        return Compared(at + horizon_s, found, beyond)

    def _play(
        self,
        policy: Policy,
        state: ClusterState,
        at: float,
        horizon_s: float,
        computing_s: float = PREVIEW_S,
        most: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[Played, Mapping[str, Facts]]:
        from schedulearn.scheduler.sim.preview import play

        snapshot, facts = self._look(policy, state, at)
        if most is not None and len(snapshot.jobs) > most:
            first = sorted(snapshot.jobs, key=lambda job: (not job.allocation, job.submitted_at, job.id))[:most]
            kept = {job.id for job in first} | {job.id for job in snapshot.jobs if job.allocation}
            snapshot = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.id in kept))
            facts = {job_id: about for job_id, about in facts.items() if job_id in kept}
        try:
            is_over = self._within(PREVIEW_WALL_S, computing_s)

            def out_of_time() -> bool:
                return is_over() or stopped()

            found = play(
                policy,
                snapshot,
                facts,
                horizon_s=horizon_s,
                out_of_time=out_of_time,
                switching=self._switching,
                always_on=_always_on(state),
                quotas=self._quotas(),
            )
            return found, facts
        except Exception as error:
            log.exception("a preview failed")
            raise PolicyFault(f"the policy can't be played: {type(error).__name__}: {error}") from error

    @seeing_all()
    def predict_job(self, spec: JobSpec) -> tuple[Eta, float]:
        """When a job would start and end if it were submitted now, and up to when that was looked for. Takes a second
        at most; raises PolicyFault if the policy can't be played."""
        from schedulearn.scheduler.sim.forecast import Eta, Facts, forecast

        quotas, now = self._quotas(), self._clock()
        if not spec.required_gpus:
            return self._predict_without_gpus(spec, quotas, now), now
        if used_up(spec.user, quotas):
            return Eta(None, None, None, None, Basis.GUESS), now
        policy = self._policy()
        state = self._state()
        snapshot, facts = self._look(policy, state)
        given = Given(spec.command, spec.required_gpus, spec.batch_size, spec.epochs, sorted(spec.data))
        predicted = self._profiles.length_of_new(spec.family or "", spec.user or "", given)
        length = by_family(predicted.value if predicted is not None else None, 0.0)
        least, most = spec.min_gpus or spec.required_gpus, spec.max_gpus or spec.required_gpus
        view = JobView(
            id=_UNBORN,
            submitted_at=snapshot.now,
            required_gpus=spec.required_gpus,
            min_gpus=least,
            max_gpus=least if spec.elastic and policy.resizes else most,
            elastic=spec.elastic,
            gpu_type=spec.gpu_type,
            priority=spec.priority,
            weight=spec.weight,
            metric=spec.metric,
            deadline=spec.deadline.timestamp() if spec.deadline else None,
            user=spec.user,
            remaining=length.seconds if length else None,
            basis=length.basis if length else None,
        )
        image_in = self._image_in(spec, ())
        spread = predicted.spread if predicted is not None else None
        about = Facts(
            name=spec.name, max_gpus=most, max_duration=spec.max_duration, image_in=image_in, length_spread=spread
        )
        try:
            found = forecast(
                policy,
                replace(snapshot, jobs=(*snapshot.jobs, view)),
                {**facts, _UNBORN: about},
                horizon_s=HORIZON_S,
                out_of_time=self._within(PREVIEW_WALL_S, ETA_S),
                switching=self._switching,
                always_on=_always_on(state),
                quotas=quotas,
            )
            if found.problem is not None:
                raise found.problem
        except Exception as error:
            log.exception("the start of a job could not be foreseen")
            raise PolicyFault(f"the policy can't be played: {type(error).__name__}: {error}") from error
        return found.etas[_UNBORN], found.until

    def _predict_without_gpus(self, spec: JobSpec, quotas: Quotas, now: float) -> Eta:
        """No simulation tells how long such a job takes, so one that has to wait has no start."""
        from schedulearn.scheduler.sim.forecast import Eta

        with self._db.read() as conn:
            state, several_users = load_cluster_state(conn), has_accounts(conn)
        resting = next_tries(state.jobs, now).keys()
        waiting = {job.id for job in self._snapshot(self._policy(), state, now).jobs}
        cpu_only = CpuOnly(
            state, self._reachable(), self._host_facts(), self._cpu_jobs, lambda job, host: None, resting, quotas,
            several_users=several_users, now=now,
        )  # fmt: skip
        new = NewJob(_UNBORN, spec.user or "", spec.priority, now, spec.cpus, spec.memory, spec.shm_size)
        place = cpu_only.places(waiting, new)[_UNBORN]
        image_in = self._image_in(spec, ())
        if isinstance(place, Explanation):
            return Eta(None, None, None, None, Basis.GUESS, beyond_quota=place.code == Reason.UNSATISFIABLE)
        if math.isinf(image_in):
            return Eta(None, None, None, None, Basis.GUESS, awaits_image=True)
        return Eta(now + image_in, None, None, None, Basis.GUESS)

    def wait_of(self, spec: JobSpec) -> float | None:
        """Seconds until it would start if it were submitted now; None: it can't be told. Raises PolicyFault."""
        eta, _ = self.predict_job(spec)
        return None if eta.start is None else eta.start - self._clock()

    def _state(self) -> ClusterState:
        with self._db.read() as conn:
            return load_cluster_state(conn)

    def _look(
        self, policy: Policy, state: ClusterState, at: float | None = None
    ) -> tuple[Snapshot, Mapping[str, Facts]]:
        """The cluster as `policy` would see it at that time, usually now: without the jobs that need no GPUs."""
        from schedulearn.scheduler.sim.forecast import Facts

        snapshot = without_cpu_only(self._snapshot(policy, state, self._clock() if at is None else at))
        facts = {}
        for view in snapshot.jobs:
            job, profile = state.jobs[view.id], self._profiles.get(view.id)
            facts[view.id] = Facts(
                name=job.name,
                max_gpus=job.max_gpus,
                started_at=job.started_at,
                profiled_gpus=profile.max_profiled if profile else 0,
                max_duration=job.max_duration,
                image_in=0.0 if view.allocation else self._image_in(job, job.fetch_hosts),
                length_spread=self._length_spread(view),
            )
        return snapshot, facts

    def _length_spread(self, view: JobView) -> float | None:
        """Of what is left of it, by the far end of the interval of its length."""
        predicted = self._profiles.length_of(view.id)
        if predicted is None or view.basis is not Basis.FAMILY or not view.remaining:
            return None
        return max(1.0, (predicted.high - view.attained_gpu_seconds) / view.remaining)

    def _snapshot(self, policy: Policy, state: ClusterState, at: float) -> Snapshot:
        memory = None
        if policy.shares_gpus:
            with self._db.read() as conn:
                memory = gpu_memory(state, predicted_needs(conn, state.jobs, hints=self._profiles.hints))
        return build_snapshot(
            state,
            self._reachable(),
            self._utilization,
            at,
            self._profiles.get,
            policy.resizes,
            settled=True,
            length_of=self._profiles.length_of,
            memory=memory,
        )

    def _run(self) -> float:
        began = time.monotonic()
        try:
            seen = self._changes()
            if seen != self._before and began - (self._busy_since or began) < _BUSY_S:
                self._before, self._busy_since = seen, self._busy_since or began
                return _LOOK_S  # let bursts and starts have the processor
            self._busy_since = None
            return max(self._every_s, 10 * (time.monotonic() - began)) if self.update() else _LOOK_S
        except Exception as error:
            self._tell(error)
            if abs(self._clock() - self.etas.at) > KEPT_S:
                self.etas = Etas()
            return STALE_S

    def update(self) -> bool:
        """Predicts anew; False if nothing has changed since the last time."""
        seen = self._changes()
        if seen == self._seen and abs(self._clock() - self.etas.at) < STALE_S:
            return False
        state = self._state()
        if state.jobs:
            from schedulearn.scheduler.sim.forecast import forecast

            policy, quotas = self._policy(), self._quotas()
            snapshot, facts = self._look(policy, state)
            found = forecast(
                policy,
                snapshot,
                facts,
                horizon_s=HORIZON_S,
                out_of_time=self._within(ETA_S),
                switching=self._switching,
                always_on=_always_on(state),
                quotas=quotas,
            )
            # Hours that were used are forgotten one by one; nobody reckons when there are enough again.
            told = {view.id for view in snapshot.jobs if view.allocation or not used_up(view.user, quotas)}
            self.etas = Etas(snapshot.now, found.until, {job: eta for job, eta in found.etas.items() if job in told})
            self._tell(found.problem)
        else:  # an idle service stays without NumPy
            self.etas = Etas(self._clock())
        self._seen = seen  # after the prediction: one that fails is tried again
        return True

    def _tell(self, problem: Exception | None) -> None:
        """Logs what keeps a prediction from its end, once for as long as it is the same."""
        text = f"{type(problem).__name__}: {problem}" if problem is not None else ""
        if problem is not None and text != self._problem:
            log.error("when jobs start and end can't be predicted any further: %s", text, exc_info=problem)
        self._problem = text

    def _changes(self) -> _Seen:
        """Another one after whatever may change a prediction."""
        quotas = self._quotas()
        with self._db.read() as conn:
            event = repository.last_event_id(conn)
        return event, self._profiles.version, quotas.by_user, quotas.by_group, quotas.group_of

    def _within(self, budget_s: float, computing_s: float = math.inf) -> Callable[[], bool]:
        """Whether the time is up, or that of the processor, which does not depend on what else the machine does; asked
        often, it leaves the processor to others in between."""
        end = time.monotonic() + budget_s
        end_computing = time.thread_time() + computing_s
        pause = time.monotonic() + _SHARE

        def out_of_time() -> bool:
            nonlocal pause
            now = time.monotonic()
            if now > pause:
                time.sleep(0.001)
                pause = time.monotonic() + _SHARE
            return now > end or time.thread_time() > end_computing or self._thread.stopping

        return out_of_time


def _always_on(state: ClusterState) -> frozenset[str]:
    """The service's own machine is never switched off."""
    return frozenset(host.id for host in state.hosts if host.origin == "embedded")
