"""What the simulator plays: applications (what is true of a kind of training), jobs, traces, generated arrivals."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from schedulearn.metrics.goodput import BatchBounds
from schedulearn.metrics.throughput import StepTimeModel
from schedulearn.scheduler.errors import InvalidError

SEGMENTS = 100
"""The noise scale is taken as constant over each of so many equal parts of a training."""


@dataclass(frozen=True)
class Application:
    """The truth about one kind of training, on the reference type of GPU."""

    name: str
    model: StepTimeModel | None
    """None: nothing is known but how long it runs: each second of running is one step of progress."""
    bounds: BatchBounds
    total_steps: float
    """Work, in steps of the initial batch size."""
    noise: tuple[tuple[float, float], ...] = ()
    """(fraction of the training done, gradient noise scale in samples), by rising fraction; linear in between."""

    def phi(self, segment: int) -> float:
        """Noise scale in the middle of a segment, samples."""
        if not self.noise:
            return 0.0
        at = (min(segment, SEGMENTS - 1) + 0.5) / SEGMENTS
        fractions, values = zip(*self.noise, strict=True)
        return float(np.interp(at, fractions, values))

    @property
    def max_gpus(self) -> int:
        """More replicas than this would each get less than the smallest local batch."""
        return max(1, self.bounds.max_batch // self.bounds.min_local)


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
    priority: int = 50
    weight: float = 1.0
    deadline: float | None = None
    running: Running | None = None

    @property
    def most_gpus(self) -> int:
        if not self.elastic:
            return self.required_gpus
        return max(self.min_gpus, self.max_gpus if self.max_gpus is not None else self.application.max_gpus)


@dataclass(frozen=True)
class Running:
    """How far a job is when the simulation begins."""

    progress: float = 0.0
    allocation: Mapping[str, int] = field(default_factory=dict)
    attained_gpu_seconds: float = 0.0
    run_seconds: float = 0.0
    restarts: int = 0
    profiled_gpus: int = 0


def load_applications(path: Path | None = None) -> dict[str, Application]:
    """Applications by name, from a JSON file as docs/simulator.md describes; by default the six of Pollux's traces."""
    file = path or Path(__file__).with_name("applications.json")
    content = _read_json(file)
    return {name: _application(name, entry, str(file)) for name, entry in content.items()}


def load_trace(path: Path, applications: Mapping[str, Application] | None = None) -> list[TraceJob]:
    """The jobs of a CSV or JSON trace, by time. Raises InvalidError that names the file, the line and the field."""
    known = dict(applications) if applications is not None else load_applications()
    if not path.is_file():
        raise InvalidError(f"there is no trace {path}", field="trace")
    jobs = _load_json(path, known) if path.suffix == ".json" else _load_csv(path, known)
    if not jobs:
        raise InvalidError(f"{path} holds no jobs", field="trace")
    ids = [job.id for job in jobs]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise InvalidError(f"{path}: the name {twice!r} is there twice", field="trace")
    return sorted(jobs, key=lambda job: (job.submitted_at, job.id))


def _load_csv(path: Path, known: Mapping[str, Application]) -> list[TraceJob]:
    jobs = []
    with path.open(newline="") as file:
        for row in (reader := csv.DictReader(file)):
            jobs.append(_job(row, known, f"{path}, line {reader.line_num}"))
    return jobs


def _load_json(path: Path, known: dict[str, Application]) -> list[TraceJob]:
    content = _read_json(path)
    if not isinstance(content.get("jobs"), list):
        raise InvalidError(f'{path} must be an object with a list "jobs"', field="trace")
    for name, entry in content.get("applications", {}).items():
        known[name] = _application(name, entry, str(path))
    return [_job(row, known, f"{path}, job {index}") for index, row in enumerate(content["jobs"])]


def _job(row: Mapping[str, Any], known: Mapping[str, Application], where: str) -> TraceJob:
    application = known.get(row.get("application") or "")
    if application is None:
        raise InvalidError(
            f"{where}: application {row.get('application')!r} is not known; there are {', '.join(sorted(known))}",
            field="application",
        )
    if row.get("total_steps"):
        application = replace(application, total_steps=_number(row, "total_steps", where, least=1e-9))
    rigid = str(row.get("elastic", "")).lower() in ("false", "0", "no")
    required = int(_number(row, "num_replicas", where, default=1, least=1))
    most = int(_number(row, "max_gpus", where, default=0, least=0)) or None
    deadline = _number(row, "deadline", where, default=math.nan, least=0)
    return TraceJob(
        id=str(row.get("name") or row.get("id") or f"job-{where.rsplit(' ', 1)[-1]}"),
        submitted_at=_number(row, "time", where, least=0),
        application=application,
        required_gpus=required,
        min_gpus=required if rigid else int(_number(row, "min_gpus", where, default=1, least=1)),
        max_gpus=required if rigid else most,
        elastic=not rigid,
        priority=int(_number(row, "priority", where, default=50, least=0)),
        deadline=None if math.isnan(deadline) else deadline,
    )


def _number(row: Mapping[str, Any], key: str, where: str, *, default: float | None = None, least: float) -> float:
    text = row.get(key)
    if text in (None, "") and default is not None:
        return default
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < least:
        raise InvalidError(f"{where}: {key} must be a number of at least {least:g}, not {text!r}", field=key)
    return value


def _application(name: str, entry: Mapping[str, Any], where: str) -> Application:
    try:
        if "seconds" in entry:  # nothing but a duration
            return rigid_application(name, float(entry["seconds"]))
        low, high = entry["local_batch_size"]
        bounds = BatchBounds(entry["init_batch_size"], entry["max_batch_size"], low, high)
        model = StepTimeModel(**entry["throughput"])
        noise = tuple((float(f), float(phi)) for f, phi in entry["noise_scale"])
        return Application(name, model, bounds, float(entry["total_progress_steps"]), noise)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidError(f"{where}: application {name!r}: {error}", field="applications") from error


def rigid_application(name: str, seconds: float) -> Application:
    """Something that takes `seconds`, whatever it is given."""
    return Application(name, None, BatchBounds(1, 1), seconds)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidError(f"{path} is not a JSON file that can be read: {error}", field="trace") from error
    if not isinstance(content, dict):
        raise InvalidError(f"{path} must hold a JSON object", field="trace")
    return content


# --- arrivals made up ---


def poisson(dice: random.Random, per_hour: float) -> Iterator[float]:
    """Times of arrivals that know nothing of each other."""
    at = 0.0
    while True:
        at += dice.expovariate(per_hour / 3600)
        yield at


def bursts(size: int, every_s: float = 10.0) -> Iterator[float]:
    """`size` jobs at once every `every_s` seconds, as the original Schedulearn was tested with."""
    at = 0.0
    while True:
        yield from [at] * size
        at += every_s


def diurnal(dice: random.Random, per_hour: float, depth: float = 0.9, day_s: float = 86400.0) -> Iterator[float]:
    """Poisson arrivals whose rate swings over the day by `depth` of its mean: few at first, most at noon (Lewis and
    Shedler's thinning)."""
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
    """`count` jobs drawn from `applications`: (application, share, GPUs that its users ask for)."""
    dice = random.Random(seed)  # noqa: S311
    mix = applications or _pollux_mix()
    times = arrivals(dice)
    jobs = []
    for index in range(count):
        application, _, sizes = dice.choices(mix, [share for _, share, _ in mix])[0]
        jobs.append(TraceJob(f"{application.name}-{index}", next(times), application, dice.choice(sizes)))
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
