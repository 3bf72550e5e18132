"""Workload of the simulator: jobs, traces, generated arrivals."""

from __future__ import annotations

import csv
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit
from schedulearn.scheduler.core.model import METRICS, Basis, Metric
from schedulearn.scheduler.core.suggestions import did_you_mean
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.sim.application import (
    UNNAMED,
    Application,
    Modelled,
    NoiseCurve,
    measured_applications,
    rigid_application,
)

MAX_SECONDS = 1e11
"""Maximum in a trace: 3,000 years. Times since the epoch fit, but not in milliseconds."""

JOB_KEYS = (
    "time", "application", "seconds", "name", "id", "num_replicas", "elastic", "min_gpus", "max_gpus", "total_steps",
    "priority", "weight", "metric", "deadline", "batch_size",
)  # fmt: skip
"""`batch_size` is in the traces of Pollux; the simulator chooses batches itself."""
MODEL_KEYS = (
    "init_batch_size", "max_batch_size", "local_batch_size", "accumulate", "throughput", "step_times", "noise_scale",
    "noise_is_sure", "total_progress_steps", "epochs", "step_time_rms_relative_error",
)  # fmt: skip
"""The last two document the source of the others, and so does `step_times` beside `throughput`."""
_ROW = ("hosts", "gpus", "samples", "step seconds", "seconds of them synchronising")
MEASURED_CONDITIONS = "conditions"
"""Key of a file of applications for measurements of the cluster itself."""


@dataclass(frozen=True)
class TraceJob:
    """One job of a trace. Times are seconds since the trace's start; a job that runs already has a `running` state."""

    id: str
    submitted_at: float
    application: Application
    required_gpus: int = 1
    min_gpus: int = 1
    max_gpus: int | None = None
    """None: as many as the application can use."""
    elastic: bool = True
    preemptible: bool = False
    """A rigid job that may be stopped: it then starts again from the beginning."""
    gpu_type: str | None = None
    """Required type of all its GPUs; None: any."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Hosts on which it can't run, with the reason."""
    wanted_hosts: str = ""
    exclusive: bool = False
    """It starts only on empty hosts, and no other job starts there while it runs."""
    priority: int = 50
    weight: float = 1.0
    metric: Metric | None = None
    deadline: float | None = None
    user: str = ""
    running: Running | None = None
    ready_at: float = 0.0
    """Earliest start, whenever it was submitted: its image is being fetched."""

    @property
    def arrives_at(self) -> float:
        """Time from which policies see it."""
        return max(self.submitted_at, self.ready_at)

    @property
    def most_gpus(self) -> int:
        if not self.elastic or self.application.times is None:
            return self.required_gpus
        useful = self.application.max_gpus
        return max(self.min_gpus, useful if self.max_gpus is None else min(self.max_gpus, useful))

    def with_passes(self, alone: int) -> TraceJob:
        """Return the job with at least `alone` micro-steps for a large batch on a single GPU."""
        application = self.application
        if application.times is None or application.bounds.alone_passes == alone:
            return self
        bounds = replace(application.bounds, alone_passes=alone)
        return replace(self, application=replace(application, bounds=bounds))


@dataclass(frozen=True)
class Running:
    """State of a job when the simulation begins."""

    progress: float = 0.0
    allocation: Mapping[str, int] = field(default_factory=dict)
    attained_gpu_seconds: float = 0.0
    run_seconds: float = 0.0
    held_seconds: float = math.inf
    """How long it has run on its allocation."""
    restarts: int = 0
    profile: Goodput | None = None
    """Its measured speed, taken as true. None: its application determines the speed."""
    profiled_gpus: int = 0
    """Maximum number of GPUs that it was measured on."""
    basis: Basis | None = Basis.PROGRESS
    """Basis of the remaining time that policies see, if the conditions reveal it; None: they don't see it."""


def load_applications(path: Path | None = None) -> dict[str, Application]:
    """Applications by name, from a JSON file as docs/simulator.md describes; by default the six of Pollux's traces."""
    if path is None:
        return dict(measured_applications())
    entries = {name: entry for name, entry in _read_json(path).items() if name != MEASURED_CONDITIONS}
    return {name: _application(name, entry, str(path)) for name, entry in entries.items()}


def measured_sharing(path: Path | None) -> float | None:
    """Return the total speed of jobs that share a GPU, if a file of applications has it under `conditions`."""
    entry = _read_json(path).get(MEASURED_CONDITIONS) if path is not None else None
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise InvalidError(f"{path}: conditions must be an object, not {entry!r}", field="conditions")
    _check_keys(entry, ("sharing",), f"{path}, conditions")
    return _number(entry, "sharing", f"{path}, conditions", default=1.0, least=0.01, most=2.0)


def load_trace(path: Path, applications: Mapping[str, Application] | None = None) -> list[TraceJob]:
    """The jobs of a CSV or JSON trace, by time. Raises InvalidError that names the file, the line and the field."""
    if not path.is_file():
        raise InvalidError(f"there is no trace {path}", field="trace")
    if path.suffix == ".json":
        return read_trace(_read_json(path), str(path), applications)
    known = dict(applications) if applications is not None else load_applications()
    return _checked(_load_csv(path, known), str(path))


def read_trace(
    content: Mapping[str, object], source: str, applications: Mapping[str, Application] | None = None
) -> list[TraceJob]:
    """The jobs of a JSON trace, by time. Raises InvalidError that names `source`, the job and the field."""
    known = dict(applications) if applications is not None else load_applications()
    _check_keys(content, ("jobs", "applications", "hosts"), source)  # `hosts`: as the API's replay gives them
    rows, own = content.get("jobs"), content.get("applications", {})
    if not isinstance(rows, list) or not isinstance(own, dict):
        raise InvalidError(f'{source} must hold a list "jobs", and "applications" must be an object', field="trace")
    known |= {name: _application(name, entry, source) for name, entry in own.items()}
    jobs = []
    for index, row in enumerate(rows):
        where = f"{source}, job {index}"
        if not isinstance(row, dict):
            raise InvalidError(f"{where}: it must be an object, not {row!r}", field="jobs")
        _check_keys(row, JOB_KEYS, where)
        jobs.append(_job(row, known, where, f"job-{index}"))
    return _checked(jobs, source)


def _checked(jobs: list[TraceJob], source: str) -> list[TraceJob]:
    if not jobs:
        raise InvalidError(f"{source} holds no jobs", field="trace")
    twice = [name for name, count in Counter(job.id for job in jobs).items() if count > 1]
    if twice:
        raise InvalidError(f"{source}: the name {twice[0]!r} is there twice", field="name")
    return sorted(jobs, key=lambda job: (job.submitted_at, job.id))


def _load_csv(path: Path, known: Mapping[str, Application]) -> list[TraceJob]:
    jobs: list[TraceJob] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            for column in ("time", "application"):
                if column not in (reader.fieldnames or ()):
                    raise InvalidError(
                        f"{path}, line 1: the column {column!r} is missing; a trace has at least time,application",
                        field=column,
                    )
            _check_keys(reader.fieldnames or (), JOB_KEYS, f"{path}, line 1", "column")
            for row in reader:
                if None in row:
                    raise InvalidError(
                        f"{path}, line {reader.line_num}: it has more values than the first line has columns",
                        field="trace",
                    )
                jobs.append(_job(row, known, f"{path}, line {reader.line_num}", f"job-{len(jobs)}"))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidError(f"{path} is not a CSV file that can be read: {error}", field="trace") from error
    return jobs


def _check_keys(given: Collection[str], known: Sequence[str], where: str, what: str = "key") -> None:
    for key in given:
        if key not in known:
            raise InvalidError(
                f"{where}: there is no {what} {key!r}{did_you_mean(key, known) or '; there are ' + ', '.join(known)}",
                field=key,
            )
    if len(set(given)) < len(given):
        raise InvalidError(f"{where}: a {what} is there twice", field="trace")


def _job(row: Mapping[str, object], known: Mapping[str, Application], where: str, name: str) -> TraceJob:
    application = _application_of(row, known, where)
    required = _integer(row, "num_replicas", where, default=1)
    rigid = _is_rigid(row, application, where)
    if rigid or application.times is None:
        least: int = required
        most: int | None = required
    else:
        most = _integer(row, "max_gpus", where, default=0, least=0) or None
        least = _integer(row, "min_gpus", where, default=1)
        for key, bound in (("max_gpus", most), ("application", application.max_gpus)):
            if bound is not None and bound < max(required, least):
                asked = max(required, least)
                raise InvalidError(f"{where}: {key} allows {bound} GPUs, and it asks for {asked}", field=key)
    deadline = _number(row, "deadline", where, default=math.nan, least=0, most=MAX_SECONDS)
    return TraceJob(
        id=str(row.get("name") or row.get("id") or name),
        submitted_at=_number(row, "time", where, least=0, most=MAX_SECONDS),
        application=application,
        required_gpus=required,
        min_gpus=least,
        max_gpus=most,
        elastic=not rigid,
        priority=_integer(row, "priority", where, default=50, least=0, most=100),
        weight=_number(row, "weight", where, default=1.0, least=1e-6),
        metric=_metric(row, where),
        deadline=None if math.isnan(deadline) else deadline,
    )


def _metric(row: Mapping[str, object], where: str) -> Metric | None:
    given = row.get("metric") or None
    found = next((metric for metric in METRICS if metric == given), None)
    if found is None and given is not None:
        raise InvalidError(f"{where}: metric is {given!r}; valid: {', '.join(METRICS)}", field="metric")
    return found


def _application_of(row: Mapping[str, object], known: Mapping[str, Application], where: str) -> Application:
    name = row.get("application")
    if name in (None, "") and row.get("seconds") not in (None, ""):
        return rigid_application(UNNAMED, _number(row, "seconds", where, least=1e-3, most=MAX_SECONDS))
    application = known.get(name) if isinstance(name, str) else None
    if application is None:
        raise InvalidError(
            f"{where}: application {name!r} is not known; there are {', '.join(sorted(known))}", field="application"
        )
    if row.get("total_steps") not in (None, ""):
        application = replace(application, total_steps=_number(row, "total_steps", where, least=1e-9))
    return application


def _is_rigid(row: Mapping[str, object], application: Application, where: str) -> bool:
    """Return whether a job is rigid: jobs are elastic unless they say otherwise, or only their run time is known."""
    text = str(row.get("elastic") if row.get("elastic") is not None else "").strip().lower()
    if text not in ("", "true", "1", "yes", "false", "0", "no"):
        raise InvalidError(f"{where}: elastic must be true or false, not {row.get('elastic')!r}", field="elastic")
    return text in ("false", "0", "no") or (not text and application.times is None)


def _number(
    row: Mapping[str, object],
    key: str,
    where: str,
    *,
    default: float | None = None,
    least: float,
    most: float = math.inf,
) -> float:
    given = row.get(key)
    if given in (None, "") and default is not None:
        return default
    try:
        value = math.nan if isinstance(given, bool) else float(str(given))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not least <= value <= most:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InvalidError(f"{where}: {key} must be a number {bounds}, not {given!r}", field=key)
    return value


def _integer(
    row: Mapping[str, object], key: str, where: str, *, default: int, least: int = 1, most: float = math.inf
) -> int:
    value = _number(row, key, where, default=default, least=least, most=most)
    if value != int(value):
        raise InvalidError(f"{where}: {key} must be a whole number, not {row.get(key)!r}", field=key)
    return int(value)


def _application(name: str, entry: object, where: str) -> Application:
    where = f"{where}, application {name!r}"
    if not isinstance(entry, dict):
        raise InvalidError(f"{where}: it must be an object, not {entry!r}", field="applications")
    _check_keys(entry, ("seconds", *MODEL_KEYS), where)
    try:
        if "seconds" in entry:  # nothing but a duration
            return rigid_application(name, _number(entry, "seconds", where, least=1e-3, most=MAX_SECONDS))
        low, high = entry["local_batch_size"]
        accumulate = bool(entry.get("accumulate", True))
        bounds = BatchBounds(entry["init_batch_size"], entry["max_batch_size"], low, high, accumulate)
        given = "throughput" in entry or "step_times" not in entry
        model = StepTimeModel(**entry["throughput"]) if given else _fitted(entry["step_times"])
        noise = tuple((float(f), float(phi)) for f, phi in entry["noise_scale"])
        if [f for f, _ in noise] != sorted(f for f, _ in noise) or not all(phi >= 0 for _, phi in noise):
            raise ValueError("noise_scale must be pairs (fraction, samples) by rising fraction")
    except KeyError as error:
        raise InvalidError(f"{where}: {error.args[0]} is missing", field="applications") from error
    except (TypeError, ValueError) as error:
        raise InvalidError(f"{where}: {error}", field="applications") from error
    steps = _number(entry, "total_progress_steps", where, least=1e-9)
    sure = bool(entry.get("noise_is_sure", False))
    return Application(name, Modelled(model), bounds, steps, NoiseCurve(noise), noise_is_sure=sure)


def _fitted(measured: object) -> StepTimeModel:
    """Fit a model to measurements. Raises TypeError or ValueError for what can't be measurements."""
    rows = np.array(measured, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != len(_ROW):
        raise ValueError(f"step_times must be rows of {', '.join(_ROW)}")
    hosts, gpus, samples, step, sync = rows.T
    return fit(StepTimes(hosts, gpus, samples, np.maximum(step - sync, 1e-6), step))


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidError(f"{path} is not a JSON file that can be read: {error}", field="trace") from error
    if not isinstance(content, dict):
        raise InvalidError(f"{path} must hold a JSON object", field="trace")
    return content


# --- generated arrivals ---


def poisson(dice: random.Random, per_hour: float) -> Iterator[float]:
    """Yield the times of independent arrivals."""
    at = 0.0
    while True:
        at += dice.expovariate(per_hour / 3600)
        yield at


def bursts(size: int, every_s: float = 10.0) -> Iterator[float]:
    """Yield `size` arrivals at once every `every_s` seconds, as the original Schedulearn was tested with."""
    at = 0.0
    while True:
        yield from [at] * size
        at += every_s


def diurnal(dice: random.Random, per_hour: float) -> Iterator[float]:
    """Yield Poisson arrivals whose rate varies over the day by nine tenths of its mean.

    They are few at first, and most at noon (Lewis and Shedler's thinning).
    """
    depth, day_s = 0.9, 86400.0
    for at in poisson(dice, per_hour * (1 + depth)):
        rate = 1 - depth * math.cos(2 * math.pi * at / day_s)
        if dice.random() < rate / (1 + depth):
            yield at


def random_trace(
    seed: int,
    count: int,
    arrivals: Callable[[random.Random], Iterator[float]],
    applications: Sequence[tuple[Application, float, tuple[int, ...]]] | None = None,
) -> list[TraceJob]:
    """Draw `count` jobs from `applications`: (application, share, GPUs that its users ask for)."""
    dice = random.Random(seed)  # noqa: S311
    mix = applications or _pollux_mix()
    times = arrivals(dice)
    jobs = []
    for index in range(count):
        application, _, sizes = dice.choices(mix, [share for _, share, _ in mix])[0]
        gpus, elastic = dice.choice(sizes), application.times is not None
        jobs.append(TraceJob(f"{application.name}-{index}", next(times), application, gpus, elastic=elastic))
    return jobs


def _pollux_mix() -> list[tuple[Application, float, tuple[int, ...]]]:
    known = load_applications()
    # Shares and sizes as counted in the three traces of bench/data.
    return [
        (known["ncf"], 0.40, (1,)),
        (known["cifar10"], 0.38, (6, 8, 12, 16)),
        (known["deepspeech2"], 0.09, (6, 8, 12)),
        (known["bert"], 0.06, (6, 8, 12)),
        (known["yolov3"], 0.05, (4, 8, 16)),
        (known["imagenet"], 0.02, (16, 32)),
    ]
