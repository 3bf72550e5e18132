"""Advice before a job runs: predicted run time, cost and metric.

Each combination of batch size and number of GPUs gets a prediction.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypedDict

from sqlalchemy.engine import Connection

from schedulearn.features.sweeps.advice_spec import AdviceSpec
from schedulearn.features.sweeps.child import ask_child
from schedulearn.features.sweeps.models.advice import (
    MAX_OPTIONS,
    AdviceGoal,
    Estimate,
    Recommendation,
    batch_sizes,
    choose,
    gpu_counts,
    option_of,
)
from schedulearn.features.sweeps.models.samples import Configuration, MeasuredRun, Stay, jobs_beside
from schedulearn.features.sweeps.past_runs import host_stays, past_runs, since_when
from schedulearn.scheduler.core.feasible_hosts import is_of_type
from schedulearn.scheduler.core.prices import price_of
from schedulearn.scheduler.errors import ConflictError, InvalidError, NoHistoryError, PolicyFault
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store.cluster_state import load_cluster_state
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.kin import owner_of

log = logging.getLogger(__name__)

MIN_SAMPLES = 10
"""Minimum finished jobs of the family; with fewer, there is no advice."""
_MAX_SAMPLES = 1000
_CHILD_S = 90.0
_QUEUE_S = 30.0  # maximum wait for other advice

Wait = Callable[[JobSpec], float | None]
"""Seconds until a job would start; None: unknown."""


class ModelScore(NamedTuple):
    model: str
    r2: float
    error: float


class Advice(NamedTuple):
    choice: Recommendation
    samples: int
    """Number of finished jobs of the family that it is based on."""
    time_scores: list[ModelScore]
    """Scores of all models. The first one is used."""
    metric_scores: list[ModelScore]
    """As `time_scores`; empty if the metric is not predicted."""


class _Answer(NamedTuple):
    scores: list[ModelScore]
    """The first model is used."""
    predicted: list[Estimate]


class _Told(TypedDict):
    """Answer of the child process, as JSON."""

    scores: list[tuple[str, float, float]]
    predicted: list[tuple[float, float, float]]


class _Cluster(NamedTuple):
    """GPUs of the cluster, and its load."""

    types: Mapping[str, int]
    """Type of GPU -> number of healthy GPUs."""
    beside: float
    """Mean number of running jobs per host."""


class Advisor:
    def __init__(
        self, db: Database, wait: Wait, prices: Mapping[str, float], clock: Callable[[], float] = time.time
    ) -> None:
        self._db = db
        self._wait = wait
        self._prices = prices
        self._clock = clock
        self._one_at_once = threading.Lock()

    def advise(self, spec: AdviceSpec) -> Advice:
        """Return advice, from finished jobs of the job's user or group.

        Takes seconds. Raises InvalidError if there is too little history, or no suitable GPU. Raises ConflictError if
        the computation, or other advice before it, takes too long or fails."""
        now, job = self._clock(), spec.checked_job()
        with self._db.read() as conn:
            samples = samples_of(conn, owner_of(conn, job.user), spec.metric.name, now)
            cluster = _cluster(conn)
        own = [sample for sample in samples if sample.configuration.family == job.family]
        if len(own) < MIN_SAMPLES:
            raise NoHistoryError(
                f"advice needs {MIN_SAMPLES} finished jobs of the family {job.family!r} of {job.user} or their group "
                f"(there are {len(own)}): run a small experiment over batch_size and required_gpus first",
                field="job",
            )
        options = _options(spec, job, own, cluster)
        tried = {sample.configuration.point for sample in own}
        if len(tried) == 1 and any(each.point not in tried for each in options):
            raise NoHistoryError(
                f"all finished jobs of the family {job.family!r} have the same configuration: run a small experiment "
                "over batch_size and required_gpus first",
                field="job",
            )
        answer = self._ask(samples, options)
        times, metrics = answer["run_time"], answer.get("metric")
        reached = metrics.predicted if metrics is not None else [None] * len(options)
        objective = _objective(spec, job, now)
        sizes = [(each.gpu_type, each.gpus) for each in options]
        waits = {size: self._wait_of(spec, *size) for size in set(sizes)}
        found = [
            option_of(each, waits[size], run, metric, price_of(self._prices, each.gpu_type), objective)
            for each, size, run, metric in zip(options, sizes, times.predicted, reached, strict=True)
        ]
        return Advice(
            choose(found, objective),
            len(own),
            times.scores,
            metrics.scores if metrics is not None else [],
        )

    def _wait_of(self, spec: AdviceSpec, gpu_type: str, gpus: int) -> float:
        try:
            return max(0.0, self._wait(spec.checked_job(required_gpus=gpus, gpu_type=gpu_type)) or 0.0)
        except PolicyFault:
            return 0.0  # without a simulation, the start is unknown

    def _ask(self, samples: Sequence[MeasuredRun], options: Sequence[Configuration]) -> Mapping[str, _Answer]:
        if not self._one_at_once.acquire(timeout=_QUEUE_S):
            raise ConflictError("other advice is being computed: try again in a minute")
        try:
            found: dict[str, _Told] = json.loads(
                ask_child("advice_process", {"samples": samples, "options": options}, _CHILD_S)
            )
        except subprocess.TimeoutExpired as error:
            raise ConflictError(f"advice took more than {_CHILD_S:g} s: the machine is busy, try again") from error
        except subprocess.CalledProcessError as error:
            log.error("the computation of advice failed: %s", error.stderr[-4000:])
            raise ConflictError("the computation of advice failed: see the service's log") from error
        finally:
            self._one_at_once.release()
        return {
            of: _Answer([ModelScore(*each) for each in told["scores"]], [Estimate(*each) for each in told["predicted"]])
            for of, told in found.items()
        }


def samples_of(conn: Connection, owner: str, metric: str, now: float) -> list[MeasuredRun]:
    """Return the newest finished jobs of an owner as samples."""
    runs = past_runs(conn, owner, metric, _MAX_SAMPLES)
    ids = [run.job_id for run in runs]
    stays = host_stays(conn, since_when(conn, ids), now)
    beside = jobs_beside(Stay(*stay) for stay in stays)
    return [
        MeasuredRun(
            Configuration(
                run.family, run.gpu_type, run.gpus, run.batch_size, run.epochs, run.input_size,
                beside.get(run.job_id, 0.0),
            ),
            run.run_seconds,
            run.metric,
        )
        for run in runs
    ]  # fmt: skip


def _cluster(conn: Connection) -> _Cluster:
    state = load_cluster_state(conn)
    types: dict[str, int] = {}
    for gpu in state.gpus:
        if not gpu.fault:
            types[gpu.type] = types.get(gpu.type, 0) + 1
    running = {(task.host_id, task.job_id) for task in state.tasks}
    hosts = {gpu.host_id for gpu in state.gpus}
    return _Cluster(types, len(running) / max(1, len(hosts)))


def _options(spec: AdviceSpec, job: JobSpec, own: Sequence[MeasuredRun], cluster: _Cluster) -> list[Configuration]:
    seen = [sample.configuration for sample in own]
    epochs = job.epochs or round(statistics.median(each.epochs for each in seen))
    size = round(statistics.median(each.input_size for each in seen))
    sizes = batch_sizes(
        [each.batch_size for each in seen], spec.batch_sizes or ([job.batch_size] if job.batch_size else [])
    )
    known = {each.gpu_type for each in seen}
    options = [
        Configuration(job.family or "", kind, count, batch, epochs, size, cluster.beside)
        for kind, most in sorted(cluster.types.items())
        if (
            is_of_type(kind, job.gpu_type)
            if job.gpu_type is not None
            else kind in known or not known & cluster.types.keys()
        )
        for count in gpu_counts(most, spec.gpus)
        for batch in sizes
    ]
    if not options and job.gpu_type is not None and not any(is_of_type(kind, job.gpu_type) for kind in cluster.types):
        raise InvalidError(f"no host has a healthy GPU of type {job.gpu_type!r}", field="job.gpu_type")
    if not options:
        raise InvalidError("no host has the requested number of healthy GPUs: choose fewer", field="gpus")
    if len(options) > MAX_OPTIONS:
        raise InvalidError(f"there are {len(options)} configurations: give fewer batch_sizes", field="batch_sizes")
    return options


def _objective(spec: AdviceSpec, job: JobSpec, now: float) -> AdviceGoal:
    deadline = spec.deadline or (job.deadline if spec.max_response_time is None else None)
    longest = spec.max_response_time if deadline is None else deadline.timestamp() - now
    return AdviceGoal(longest, spec.target, spec.metric.goal == "max")
