"""Parsers of what users write: policies to compare, hosts, generated arrivals."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.registry import canonical_name, policy_of
from schedulearn.scheduler.sim.application import Application
from schedulearn.scheduler.sim.jobs.training import NO_TYPE
from schedulearn.scheduler.sim.workload import (  # fmt: skip
    TraceJob,
    bursts,
    diurnal,
    load_applications,
    load_trace,
    poisson,
    random_trace,
)

GENERATORS = "poisson:JOBS@PER_HOUR, diurnal:JOBS@PER_HOUR, bursts:JOBSxTIMES[@SECONDS]"
MAX_JOBS = 100_000
MAX_GPUS = 1_000_000


@dataclass(frozen=True)
class Contender:
    """Policy to compare, as requested: small, and ready to be sent to another process."""

    algorithm: str
    metric: str = "default"
    params: Mapping[str, object] = field(default_factory=dict)

    def make(self) -> Policy:
        return policy_of(self.algorithm, self.metric, self.params)

    @property
    def label(self) -> str:
        several = len(self.make().metrics) > 1
        params = "".join(f"/{key}={json.dumps(value)}" for key, value in self.params.items())
        return self.algorithm + (f":{self.metric}" if several else "") + params


def parse_policies(text: str) -> list[Contender]:
    """`ALGORITHM[:METRIC][/KEY=VALUE...]`, separated by commas; commas within brackets belong to a value.

    Raises InvalidError (UnknownPolicyError) that names what is wrong and the valid values.
    """
    found: dict[str, Contender] = {}
    for item in re.split(r",(?![^\[]*\])", text):
        name, *pairs = item.strip().split("/")
        algorithm, _, metric = name.partition(":")
        contender = Contender(canonical_name(algorithm), metric.strip() or "default", dict(map(_pair, pairs)))
        found[contender.label] = contender
    return list(found.values())


def _pair(given: str) -> tuple[str, object]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise InvalidError(f"{given!r} is no parameter: write a policy as algorithm:metric/key=value", field="params")
    try:
        return key, json.loads(value, parse_constant=_refuse)
    except ValueError:
        return key, value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def equal_hosts(count: int, gpus: int, gpu_type: str = NO_TYPE, prefix: str = "host") -> list[HostView]:
    """Return `count` hosts of `gpus` each, whose names sort by number."""
    digits = len(str(count))
    return [HostView(f"{prefix}-{index:0{digits}}", gpus, gpu_type) for index in range(1, count + 1)]


def parse_types(text: str) -> tuple[list[HostView], dict[str, float]]:
    """Parse `TYPE=HOSTSxGPUS[@SPEED]`, separated by commas, into hosts of several types, and type -> speed.

    The GPU on which the applications were measured has speed 1.
    """
    hosts: list[HostView] = []
    speeds: dict[str, float] = {}
    for item in text.split(","):
        match = re.fullmatch(r"\s*([\w.-]+)=(\d{1,6})x(\d{1,6})(?:@(\d+(?:\.\d+)?))?\s*", item)
        if match is None or int(match[2]) < 1 or int(match[3]) < 1 or float(match[4] or 1) <= 0:
            raise InvalidError(
                f"{item.strip()!r} is not TYPE=HOSTSxGPUS[@SPEED], such as t4=6x4 or a100=2x8@2.5", field="types"
            )
        if match[1] in speeds:
            raise InvalidError(f"the GPU type {match[1]!r} is there twice", field="types")
        speeds[match[1]] = float(match[4] or 1)
        hosts += equal_hosts(int(match[2]), int(match[3]), match[1], prefix=match[1])
        if sum(host.gpus for host in hosts) > MAX_GPUS:
            raise InvalidError(f"more than {MAX_GPUS} GPUs", field="types")
    return hosts, speeds


def parse_trace(text: str, seed: int, applications: Path | None = None) -> list[TraceJob]:
    """Return the jobs of a CSV or JSON file, or those made by one of `GENERATORS`.

    `applications`: a file of them; by default those of Pollux's traces. Raises InvalidError.
    """
    known = load_applications(applications)
    kind, colon, rest = text.partition(":")
    if kind not in ("poisson", "diurnal", "bursts") or not colon or Path(text).exists():
        if not Path(text).exists() and not text.endswith((".csv", ".json")):
            raise InvalidError(
                f"there is no trace {text!r}: give a CSV or JSON file, `history`, or {GENERATORS}", field="trace"
            )
        return load_trace(Path(text), known)
    mix = None if applications is None else _even_mix(known)
    pattern = r"(\d{1,6})x(\d{1,6})(?:@(\d+(?:\.\d+)?))?" if kind == "bursts" else r"(\d{1,6})@(\d+(?:\.\d+)?)"
    match = re.fullmatch(pattern, rest)
    if match is None or any(part is not None and float(part) <= 0 for part in match.groups()):
        raise InvalidError(f"{text!r} makes no arrivals: write {GENERATORS}, with numbers above 0", field="trace")
    count = int(match[1]) * (int(match[2]) if kind == "bursts" else 1)
    if count > MAX_JOBS:
        raise InvalidError(f"{text!r} makes {count} jobs; at most {MAX_JOBS}", field="trace")
    if kind == "bursts":
        return random_trace(seed, count, lambda dice: bursts(int(match[1]), float(match[3] or 10)), mix)
    arrivals = poisson if kind == "poisson" else diurnal
    return random_trace(seed, count, lambda dice: arrivals(dice, float(match[2])), mix)


def _even_mix(known: Mapping[str, Application]) -> Sequence[tuple[Application, float, tuple[int, ...]]]:
    """Every application equally often; its jobs ask for 1, 2 or 4 GPUs, if it can use them."""
    sizes = {name: tuple(k for k in (1, 2, 4) if k <= app.max_gpus) for name, app in known.items()}
    return [(app, 1.0, sizes[name] if app.times is not None else (1,)) for name, app in sorted(known.items())]


def applications_of(jobs: Sequence[TraceJob]) -> dict[str, int]:
    """Count the jobs of each application, by name."""
    names = sorted(job.application.name for job in jobs)
    return {name: len(list(group)) for name, group in itertools.groupby(names)}
