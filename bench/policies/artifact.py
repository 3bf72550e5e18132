"""The simulator of Pollux's authors (petuum/adaptdl, branch `osdi21-artifact`, folder `simulator`), with a policy of
ours in it. Nothing of it is kept here: whoever runs this gives the path of a checkout.

It needs pandas. Its genetic algorithm and autograd are left out: our policies need neither.

What is known of a job is this project's fit to what was measured of it, for policy and workers alike. In the artifact a
job that comes is unknown, also where forty of its kind have ended. With `families`, jobs of one application share what
was measured, and their lengths are predicted by those that have ended, as in this service. What is true, what a restart
costs and when it is decided stay as they are.
"""

from __future__ import annotations

import importlib
import random
import sys
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.policy import HostView, JobView, Policy, Snapshot
from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.core.profile import TRIES
from schedulearn.scheduler.sim.conditions import POLLUX
from schedulearn.scheduler.sim.jobs.memory import MeasuredPass, Memory, Shape, alike

INTERVAL_S = 60
GPU_TYPE = "t4"


def play(
    artifact: Path,
    workload: Path,
    policy: Policy,
    shifts: Sequence[float],
    copy: int,
    *,
    families: bool = False,
) -> dict[str, float]:
    """Job -> seconds from submission to end, on 16 hosts of 4 GPUs, decided every 60 s. `shifts`: of each arrival.
    `families`: whether jobs of one application share what was learned."""
    simulator, pandas = _load(artifact)
    rows = pandas.read_csv(workload)
    rows["time"] = [max(0.0, time + shift) for time, shift in zip(rows["time"], shifts, strict=True)]
    job_class = simulator.Job
    simulator.Job = remembering(job_class, shared=families)
    try:
        adapter = _adapter(simulator.PolluxPolicy)(policy, copy)
        cluster = simulator.Cluster(rows, adapter, 16, num_gpus=4)
    finally:
        simulator.Job = job_class
    adapter.jobs = {job.name: job for job in cluster.jobs}
    while not cluster.all_complete():
        cluster.step(INTERVAL_S)
    return {name: float(seconds) for name, seconds in cluster.get_jcts().items()}


@dataclass
class Family:
    """What jobs of one application have learned together, or one job that is a family of its own."""

    memory: Memory = field(default_factory=Memory)
    first_noise: Any = None
    """Gradient statistics that its first job began with: what every other is taken to begin with."""


class Knowledge(NamedTuple):
    """Of one job, by its family."""

    goodput: Goodput
    remaining: float | None
    """Seconds of one GPU that it still takes; None: no job of its family has ended."""


class Remembering:
    """What a job of the artifact does differently if its profile is that of its family, and fitted by us."""

    families: Mapping[str, Family]
    shared: bool
    """Whether its family is its application; else it is one of its own."""
    name: str
    application: Any
    _noise: Any = None
    _measured: frozenset[Shape] = frozenset()

    @property
    def family(self) -> Family:
        return self.families[self.application.name if self.shared else self.name]

    @property
    def max_profiled_replicas(self) -> int:
        return self.family.memory.largest

    @property
    def perf_params(self) -> tuple[float, ...] | None:
        """In the artifact's order."""
        if not self.family.memory.shapes:
            return None
        of = self.family.memory.fits()[GPU_TYPE].model
        return of.alpha_grad, of.beta_grad, of.alpha_node, of.beta_node, of.alpha_local, of.beta_local, of.gamma

    @perf_params.setter
    def perf_params(self, own: object) -> None:
        """None: what a new job begins with."""

    @property
    def grad_params(self) -> Any:
        return self._noise or self.family.first_noise

    @grad_params.setter
    def grad_params(self, found: Any) -> None:
        self._noise = found
        self.family.first_noise = self.family.first_noise or found

    def get_speedup_fn(self) -> None:
        """What only the artifact's own policies ask for."""

    def update_params(
        self, num_nodes: int, num_replicas: int, local_bsz: int, step_time: float, sync_time: float, *noise: float
    ) -> None:
        self.grad_params = noise
        shape = GPU_TYPE, num_nodes, num_replicas, alike(local_bsz)
        if shape not in self._measured:
            self._measured |= {shape}
            self.family.memory.learn(shape, MeasuredPass(local_bsz, step_time - sync_time, step_time))


def remembering(base: type, *, shared: bool) -> type:
    """The artifact's class of jobs, with the profile of the job's family in place of its own."""
    return type("RememberingJob", (Remembering, base), {"families": defaultdict(Family), "shared": shared})


def _knowledge(job: Any, jobs: Collection[Any]) -> Knowledge | None:
    """Of one of `jobs`; None: nothing of its family was measured."""
    application, family = job.application, job.family
    if not family.memory.shapes:
        return None
    sqr, var = job.grad_params
    init = application.init_batch_size
    # As the artifact bounds it: where the mean gradient was too noisy to be seen, only noise is left.
    phi = init * var / max(sqr, 1e-9 * var) if var > 0 else 0.0
    local = int(application.min_local_bsz), int(application.max_local_bsz)
    bounds = BatchBounds(int(init), int(application.max_batch_size), *local, alone_passes=POLLUX.alone_passes)
    goodput = family.memory.goodput(float(phi), bounds, {})
    left = samples_left(job, [each for each in jobs if each.family is family], init)
    return Knowledge(goodput, None if left is None else left / float(goodput(1, 1)))


def samples_left(job: Any, family: Sequence[Any], init_batch: float) -> float | None:
    """What a job still has to do, in samples' worth of progress, by the mean of those of its family that have ended;
    None: none has."""
    done = [each.progress for each in family if each.completion_time]
    if not done:
        return None
    total = sum(done) / len(done)
    return float(max(total - job.progress, 0.05 * total) * init_batch)


def _may_try(job: Any, info: Any) -> int:
    """GPUs. The artifact lets a job try twice what it was measured on, if any; those it holds to one GPU stay there."""
    if info.max_replicas == 1:
        return 1
    application = job.application
    return min(64, application.max_batch_size // application.min_local_bsz, TRIES * job.family.memory.largest)


class Holdings:
    """For how long jobs hold GPUs, by what they held at each decision."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        """Seconds for which a job held any."""
        self._since: dict[str, tuple[Collection[Any], float]] = {}

    def see(self, name: str, held: Collection[Any], now: float) -> None:
        self.ran[name] += INTERVAL_S if held else 0
        if name not in self._since or self._since[name][0] != held:
            self._since[name] = held, now - INTERVAL_S  # it was decided the last time

    def seconds(self, name: str, now: float) -> float | None:
        """For which a job holds what it holds; None: nothing."""
        held, since = self._since[name]
        return now - since if held else None


def _adapter(base: type) -> Callable[[Policy, int], Any]:
    """The artifact tells apart its policies by their class."""

    class Adapter(base):  # type: ignore[misc]
        jobs: Mapping[str, Any]

        def __init__(self, policy: Policy, copy: int) -> None:
            self.policy = policy
            self.names = [f"host-{index:02}" for index in range(16)]
            self.holdings = Holdings()
            if copy:
                random.Random(-copy).shuffle(self.names)

        def optimize(
            self,
            jobs: Mapping[str, Any],
            nodes: Mapping[int, Any],
            before: Mapping[str, Sequence[int]],
            template: object,
        ) -> tuple[dict[str, list[int]], int]:
            now = max((info.creation_timestamp + info.age for info in jobs.values()), default=0.0)
            hosts = tuple(
                HostView(self.names[n], node.resources["nvidia.com/gpu"], GPU_TYPE) for n, node in nodes.items()
            )
            for name in jobs:
                self.holdings.see(name, list(before.get(name, ())), now)
            views = tuple(self._view(name, info, before.get(name, ()), now) for name, info in jobs.items())
            plan = self.policy.allocate(Snapshot(now, 0, hosts, views))
            found = {}
            for name in jobs:
                wanted = {host: gpus for host, gpus in plan.allocations.get(name, {}).items() if gpus}
                held = list(before.get(name, ()))
                if Counter(self.names[n] for n in held) == Counter(wanted):
                    found[name] = held  # the same list: no restart is charged
                else:
                    order = sorted(wanted, key=lambda host: (-wanted[host], host))
                    found[name] = [self.names.index(host) for host in order for _ in range(wanted[host])]
            return found, len(nodes)

        def _view(self, name: str, info: Any, held: Sequence[int], now: float) -> JobView:
            known = _knowledge(self.jobs[name], self.jobs.values())
            return JobView(
                name,
                info.creation_timestamp,
                1,
                1,
                _may_try(self.jobs[name], info),
                True,
                attained_gpu_seconds=info.attained_service,
                run_seconds=float(self.holdings.ran[name]),
                restarts=info.num_restarts,
                allocation=dict(Counter(self.names[n] for n in held)),
                held_seconds=self.holdings.seconds(name, now),
                goodput=None if known is None else known.goodput,
                resize_seconds=POLLUX.stall_up,
                remaining=None if known is None else known.remaining,
                basis=None if known is None or known.remaining is None else Basis.FAMILY,
            )

    return Adapter


def _load(artifact: Path) -> tuple[Any, Any]:
    """(its module `simulator`, pandas), made to run on today's NumPy and pandas."""
    pandas = old_pandas(artifact)
    for name in ("model", "optimize", "algorithms", "operators", "operators.crossover", "util", "util.nds"):
        stub("pymoo." + name)
    for name in ("problem.Problem", "crossover.Crossover", "mutation.Mutation", "repair.Repair"):
        module, _, what = name.partition(".")
        stub(f"pymoo.model.{module}", **{what: type(what, (), {})})
    stub("pymoo.algorithms.nsga2", NSGA2=object)
    stub("pymoo.operators.crossover.util", crossover_mask=None)
    stub("pymoo.util.nds.non_dominated_sorting", NonDominatedSorting=object)
    return importlib.import_module("simulator"), pandas


def old_pandas(artifact: Path) -> Any:
    """pandas, with what an artifact of that time expects of it, of NumPy and of autograd; `artifact` is importable."""
    warnings.filterwarnings("ignore")
    pandas: Any = importlib.import_module("pandas")
    for name in ("int", "float", "bool", "object"):
        if name not in np.__dict__:
            setattr(np, name, getattr(__import__("builtins"), name))
    if not hasattr(pandas.DataFrame, "append"):
        pandas.DataFrame.append = lambda self, other, ignore_index=False: pandas.concat(
            [self, other], ignore_index=ignore_index
        )
    stub("autograd", numpy=np, grad=lambda function: None)
    sys.modules.setdefault("autograd.numpy", np)
    if str(artifact) not in sys.path:
        sys.path.insert(0, str(artifact))
    return pandas


def stub(name: str, **content: object) -> None:
    """A module in place of one that our policies never call."""
    parent, _, leaf = name.rpartition(".")
    if parent and parent not in sys.modules:
        stub(parent)
    module = sys.modules.setdefault(name, types.ModuleType(name))
    module.__dict__.update(content)
    if parent:
        setattr(sys.modules[parent], leaf, module)
