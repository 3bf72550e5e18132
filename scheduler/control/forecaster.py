"""Forecasts of job starts and ends, and previews of other policies.

Forecasts are kept up to date in a background thread. Nothing here writes to the database or blocks the scheduling loop.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.cluster_state import ClusterState
from schedulearn.scheduler.core.host_constraints import Misfits
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.host_scaling import Switching
from schedulearn.scheduler.core.job_image import NeedsData
from schedulearn.scheduler.core.model import Basis, Explanation, JobView, Snapshot
from schedulearn.scheduler.core.outcomes.retries import next_tries
from schedulearn.scheduler.core.planning.cpu_only import CpuOnly, NewJob, without_cpu_only
from schedulearn.scheduler.core.planning.guarantees import Guarantee
from schedulearn.scheduler.core.planning.placement import gpu_memory
from schedulearn.scheduler.core.planning.quotas import Bounds, Quota, Quotas, used_up
from schedulearn.scheduler.core.planning.remaining_work import by_family
from schedulearn.scheduler.core.planning.snapshot import build_snapshot, parts, with_limits, with_windows
from schedulearn.scheduler.core.planning.start_times import start_times
from schedulearn.scheduler.core.planning.windows import after_windows, in_the_way, with_hosts_returned
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.predictions.features import Given
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.errors import PolicyFault
from schedulearn.scheduler.reports.profiles import Profiles
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_rows import start_of
from schedulearn.scheduler.store.people.accounts import has_accounts
from schedulearn.scheduler.store.people.visibility import seeing_all
from schedulearn.scheduler.store.resources.gpu_memory import predicted_needs

if TYPE_CHECKING:  # the simulator loads NumPy, which an idle service does without
    from schedulearn.scheduler.sim.forecast import Eta, Facts
    from schedulearn.scheduler.sim.preview import PreviewedPolicy, Totals

log = logging.getLogger(__name__)

HORIZON_S = 7 * 86_400.0
PREVIEW_S = 1.0  # CPU seconds per policy; a slower policy gets no figures
COMPARE_S = 8.0  # CPU seconds per comparison
MAX_COMPARED = 500
"""Maximum jobs simulated in a comparison: all jobs with GPUs, then the oldest others."""
PREVIEW_WALL_S = 10.0  # maximum wall time of a simulation
ETA_S = 0.7  # maximum wall time of a background forecast, and CPU time of one for a new job
EVERY_S = 10.0  # minimum interval between forecasts while something changes
STALE_S = 60.0  # interval if nothing changes: estimates grow with the run time of jobs
KEPT_S = 600.0  # maximum age of a forecast while newer ones fail
_UNBORN = "~"  # sorts after every id: a new job comes after the existing ones
_BUSY_S = 5.0  # maximum wait for changes to stop before a forecast
_LOOK_S = 0.5  # interval of checks for changes: one small query each
_SHARE = 0.005  # seconds of computing after which the thread yields the processor


_Seen = tuple[int, int, Mapping[str, Quota], Mapping[str, Bounds], Mapping[str, str], Mapping[str, Guarantee]]


@dataclass(frozen=True)
class Etas:
    """Forecast of all jobs at one time."""

    at: float = 0.0
    until: float = 0.0
    """Time that the forecast reaches, seconds since the epoch; infinite: the end of all jobs."""
    jobs: Mapping[str, Eta] = field(default_factory=dict)


class StoppedError(Exception):
    """The client no longer waits for the response."""


class Figures(NamedTuple):
    """Figures of one policy in a comparison.

    Whole simulations are not kept: they would slow down garbage collection, which blocks all requests."""

    totals: Totals | None
    cut: str
    jobs: int
    left_out: int


@dataclass(frozen=True)
class PolicyComparison:
    """Results of a comparison of policies. `beyond`: jobs that were left out."""

    until: float
    found: Sequence[Figures | PolicyFault]
    beyond: int


class Forecaster:
    """Background thread of forecasts, and previews on request.

    `reachable` returns the hosts that answer. `image_in` returns the seconds until a job's image is fetched, given the
    hosts that fetch it. `close` ends the thread."""

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
        """Latest forecast; replaced as a whole."""
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
        """Result of `_changes` at the last check."""
        self._busy_since: float | None = None
        self._thread = Background("forecaster", self._run, first_s=_LOOK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close(timeout=10)

    @seeing_all()
    def preview(self, policy: Policy, horizon_s: float) -> tuple[PreviewedPolicy, PreviewedPolicy, Mapping[str, Facts]]:
        """Return the simulations of the policy in force and of `policy`.

        They cover `horizon_s` seconds. Also returns the facts of each job. Each simulation takes at most `PREVIEW_S` of
        CPU time and `PREVIEW_WALL_S` of wall time. Raises PolicyFault if either policy can't be simulated."""
        state, at = self._state(), self._clock()
        now, _ = self._play(self._policy(), state, at, horizon_s)
        then, facts = self._play(policy, state, at, horizon_s)
        return now, then, facts

    @seeing_all()
    def compare(
        self, others: Sequence[Policy], horizon_s: float, stopped: Callable[[], bool] = lambda: False
    ) -> PolicyComparison:
        """Compare the policy in force with `others` over `horizon_s` seconds.

        All start from the same state. Together they use at most `COMPARE_S` of CPU time, and each a share of what is
        left. `stopped`: returns True once the client no longer waits. Raises StoppedError then."""
        state, at = self._state(), self._clock()
        policies = [self._policy(), *others]
        found: list[Figures | PolicyFault] = []
        beyond, end = 0, time.thread_time() + COMPARE_S
        for index, policy in enumerate(policies):
            if stopped():
                raise StoppedError
            share = max(0.0, end - time.thread_time()) / (len(policies) - index)
            try:
                played, facts = self._play(policy, state, at, horizon_s, min(PREVIEW_S, share), MAX_COMPARED, stopped)
                course = played.forecast
                found.append(Figures(played.totals, course.cut, len(course.etas), played.left_out))
                beyond = max(beyond, sum(1 for job in state.jobs.values() if job.required_gpus) - len(facts))
            except PolicyFault as fault:
                found.append(fault)
        return PolicyComparison(at + horizon_s, found, beyond)

    def _play(
        self,
        policy: Policy,
        state: ClusterState,
        at: float,
        horizon_s: float,
        computing_s: float = PREVIEW_S,
        most: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[PreviewedPolicy, Mapping[str, Facts]]:
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
            raise PolicyFault(f"the policy can't be simulated: {type(error).__name__}: {error}") from error

    @seeing_all()
    def predict_job(self, spec: JobSpec) -> tuple[Eta, float]:
        """Return the forecast of a job if it were submitted now. A held job is taken as released at once.

        Also returns the time that the forecast reaches. Takes at most `ETA_S` of CPU time and `PREVIEW_WALL_S` of wall
        time. Raises PolicyFault if the policy can't be simulated."""
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
        limit = quotas.duration_of(spec.user, spec.max_duration)
        view = JobView(
            id=_UNBORN,
            submitted_at=snapshot.now,
            required_gpus=spec.required_gpus,
            min_gpus=least,
            max_gpus=least if spec.elastic and policy.resizes else most,
            elastic=spec.elastic,
            preemptible=spec.preemptible,
            gpu_type=spec.gpu_type,
            priority=spec.priority,
            weight=spec.weight,
            metric=spec.metric,
            deadline=spec.deadline.timestamp() if spec.deadline else None,
            user=spec.user,
            remaining=length.seconds if length else None,
            basis=length.basis if length else None,
            expected_left=None
            if spec.elastic
            else self._profiles.run_times.left(spec.user or "", spec.required_gpus, 0.0, limit),
        )
        view = with_limits(view, spec.host_constraints, Misfits(state.hosts, state.gpus, parts(state.gpus)))
        if state.windows:
            longest = limit if limit is not None or predicted is None else predicted.high / spec.required_gpus
            longest = 0.0 if spec.elastic else longest
            view = with_windows(view, in_the_way(longest, state.windows, state.hosts, now))
        view, after = after_windows(view, snapshot.hosts)
        image_in = self._image_in(spec, ())
        spread = predicted.spread if predicted is not None else None
        about = Facts(
            name=spec.name,
            max_gpus=most,
            max_duration=limit,
            image_in=image_in,
            length_spread=spread,
            start_after=max(start_of(spec, snapshot.now)[1] or 0.0, after or 0.0),
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
            raise PolicyFault(f"the policy can't be simulated: {type(error).__name__}: {error}") from error
        return found.etas[_UNBORN], found.until

    def _predict_without_gpus(self, spec: JobSpec, quotas: Quotas, now: float) -> Eta:
        """Return the forecast of a new job without GPUs.

        Simulations don't cover such jobs. A job that must wait therefore has no start time."""
        from schedulearn.scheduler.sim.forecast import Eta

        with self._db.read() as conn:
            state, several_users = load_cluster_state(conn), has_accounts(conn)
        resting = next_tries(state.jobs, now).keys() | start_times(state.jobs, now).keys()
        waiting = {job.id for job in self._snapshot(self._policy(), state, now).jobs}
        cpu_only = CpuOnly(
            state, self._reachable(), self._host_facts(), self._cpu_jobs, lambda job, host: None, resting, quotas,
            several_users=several_users, now=now,
        )  # fmt: skip
        new = NewJob(
            _UNBORN,
            spec.user or "",
            spec.priority,
            now,
            spec.cpus,
            spec.memory,
            spec.shm_size,
            spec.host_constraints,
            quotas.duration_of(spec.user, spec.max_duration),
        )
        place = cpu_only.places(waiting, new)[_UNBORN]
        image_in = self._image_in(spec, ())
        if isinstance(place, Explanation):
            return Eta(None, None, None, None, Basis.GUESS, beyond_quota=place.code == Reason.UNSATISFIABLE)
        if math.isinf(image_in):
            return Eta(None, None, None, None, Basis.GUESS, awaits_image=True)
        return Eta(max(now + image_in, start_of(spec, now)[1] or 0.0), None, None, None, Basis.GUESS)

    def wait_of(self, spec: JobSpec) -> float | None:
        """Return the seconds until a job would start if submitted now.

        None if unknown. Raises PolicyFault."""
        eta, _ = self.predict_job(spec)
        return None if eta.start is None else eta.start - self._clock()

    def _state(self) -> ClusterState:
        with self._db.read() as conn:
            return with_hosts_returned(load_cluster_state(conn))

    def _look(
        self, policy: Policy, state: ClusterState, at: float | None = None
    ) -> tuple[Snapshot, Mapping[str, Facts]]:
        """Return the cluster as `policy` would see it at `at` or now.

        Jobs without GPUs are left out."""
        from schedulearn.scheduler.sim.forecast import Facts

        snapshot = without_cpu_only(self._snapshot(policy, state, self._clock() if at is None else at))
        facts, times, views = {}, start_times(state.jobs, snapshot.now), []
        for seen in snapshot.jobs:
            view, after = after_windows(seen, snapshot.hosts)
            views.append(view)
            if after is not None:
                times[view.id] = max(times.get(view.id, 0.0), after)
        snapshot = replace(snapshot, jobs=tuple(views))
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
                start_after=times.get(view.id, 0.0),
            )
        return snapshot, facts

    def _length_spread(self, view: JobView) -> float | None:
        """Return upper bound / estimate of the remaining work; None: unknown."""
        predicted = self._profiles.length_of(view.id)
        if predicted is None or view.basis is not Basis.FAMILY or not view.remaining:
            return None
        return max(1.0, (predicted.high - predicted.value + view.remaining) / view.remaining)

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
            resting={job_id for job_id, at in start_times(state.jobs, at).items() if math.isinf(at)},
            settled=True,
            length_of=self._profiles.length_of,
            memory=memory,
            run_times=self._profiles.run_times,
        )

    def _run(self) -> float:
        began = time.monotonic()
        try:
            seen = self._changes()
            if seen != self._before and began - (self._busy_since or began) < _BUSY_S:
                self._before, self._busy_since = seen, self._busy_since or began
                return _LOOK_S  # leave the processor to bursts of requests and to starting jobs
            self._busy_since = None
            return max(self._every_s, 10 * (time.monotonic() - began)) if self.update() else _LOOK_S
        except Exception as error:
            self._tell(error)
            if abs(self._clock() - self.etas.at) > KEPT_S:
                self.etas = Etas()
            return STALE_S

    def update(self) -> bool:
        """Renew the forecast; return False if nothing has changed."""
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
            # Used GPU-hours expire one by one; the simulation does not compute when enough have.
            told = {view.id for view in snapshot.jobs if view.allocation or not used_up(view.user, quotas)}
            self.etas = Etas(snapshot.now, found.until, {job: eta for job, eta in found.etas.items() if job in told})
            self._tell(found.problem)
        else:  # an idle service stays without NumPy
            self.etas = Etas(self._clock())
        self._seen = seen  # last, so that a failed forecast is tried again
        return True

    def _tell(self, problem: Exception | None) -> None:
        """Log the problem that ended a forecast early, once per problem."""
        text = f"{type(problem).__name__}: {problem}" if problem is not None else ""
        if problem is not None and text != self._problem:
            log.error("when jobs start and end can't be predicted any further: %s", text, exc_info=problem)
        self._problem = text

    def _changes(self) -> _Seen:
        """Return a value that differs after every relevant change."""
        quotas = self._quotas()
        with self._db.read() as conn:
            event = repository.last_event_id(conn)
        return event, self._profiles.version, quotas.by_user, quotas.by_group, quotas.group_of, quotas.guarantee_of

    def _within(self, budget_s: float, computing_s: float = math.inf) -> Callable[[], bool]:
        """Return a function that tells whether a simulation must stop.

        `budget_s` limits wall time. `computing_s` limits CPU time, which does not depend on the machine's load. The
        function also yields the processor now and then."""
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
    """Return the hosts that are never switched off: the service's machine."""
    return frozenset(host.id for host in state.hosts if host.origin == "embedded")
