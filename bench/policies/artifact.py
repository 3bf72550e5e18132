"""The simulator of Pollux's authors (petuum/adaptdl, branch `osdi21-artifact`, folder `simulator`), with a policy of
ours in it. Nothing of it is kept here: whoever runs this gives the path of a checkout.

It needs pandas. Its genetic algorithm and autograd are left out: our policies need neither. The fit of step times has
its own objective and search, with the gradient written out: seven times as fast, and it predicts the same to 1e-5.

In the artifact a job that comes is unknown, also where forty of its kind have ended. With `families`, jobs of one
application share what was measured, their lengths are predicted by those that have ended, and policy and workers go by
this project's fit, all as in this service. What is true, what a restart costs and when it is decided stay as they are.
"""

from __future__ import annotations

import importlib
import random
import sys
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.policy import HostView, JobView, Policy, Snapshot
from schedulearn.scheduler.sim.conditions import POLLUX
from schedulearn.scheduler.sim.jobs.memory import Memory, Pass, Shape, alike

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction

Floats = npt.NDArray[np.float64]
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
    known: dict[str, Family] = defaultdict(Family)
    job_class = simulator.Job
    simulator.Job = remembering(job_class, known) if families else job_class
    try:
        adapter = _adapter(simulator.PolluxPolicy)(policy, copy)
        cluster = simulator.Cluster(rows, adapter, 16, num_gpus=4)
    finally:
        simulator.Job = job_class
    if families:
        adapter.knowing = lambda name: _knowledge(cluster, known, name)
    while not cluster.all_complete():
        cluster.step(INTERVAL_S)
    return {name: float(seconds) for name, seconds in cluster.get_jcts().items()}


@dataclass
class Family:
    """What jobs of one application have learned together."""

    memory: Memory = field(default_factory=Memory)
    first_noise: Any = None
    """Gradient statistics of a job in its first epoch: what the next one is taken to begin with."""


class Knowledge(NamedTuple):
    """Of one job, by its family."""

    goodput: Goodput
    remaining: float | None
    """Seconds of one GPU that it still takes; None: no job of its family has ended."""


class Remembering:
    """What a job of the artifact does differently if it shares its profile with its family."""

    families: Mapping[str, Family]
    application: Any
    epoch: int
    _noise: Any = None
    _measured: frozenset[Shape] = frozenset()

    @property
    def family(self) -> Family:
        return self.families[self.application.name]

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
        if found is not None and self.epoch == 0:
            self.family.first_noise = found

    def update_params(
        self, num_nodes: int, num_replicas: int, local_bsz: int, step_time: float, sync_time: float, *noise: float
    ) -> None:
        self.grad_params = noise
        shape = GPU_TYPE, num_nodes, num_replicas, alike(local_bsz)
        if shape not in self._measured:
            self._measured |= {shape}
            self.family.memory.learn(shape, Pass(local_bsz, step_time - sync_time, step_time))


def remembering(base: type, families: Mapping[str, Family]) -> type:
    """The artifact's class of jobs, with the profile of the job's family in place of its own."""
    return type("RememberingJob", (Remembering, base), {"families": families})


def _knowledge(cluster: Any, families: Mapping[str, Family], name: str) -> Knowledge | None:
    """None: no job of the family was measured."""
    job = next(each for each in cluster.jobs if each.name == name)
    application, family = job.application, families[job.application.name]
    if not family.memory.shapes:
        return None
    sqr, var = job.grad_params
    init = application.init_batch_size
    # As the artifact bounds it: where the mean gradient was too noisy to be seen, only noise is left.
    phi = init * var / max(sqr, 1e-9 * var) if var > 0 else 0.0
    local = int(application.min_local_bsz), int(application.max_local_bsz)
    bounds = BatchBounds(int(init), int(application.max_batch_size), *local, alone_passes=POLLUX.alone_passes)
    goodput = family.memory.goodput(float(phi), bounds, {})
    left = samples_left(job, [each for each in cluster.jobs if each.application is application], init)
    return Knowledge(goodput, None if left is None else left / float(goodput(1, 1)))


def samples_left(job: Any, family: Sequence[Any], init_batch: float) -> float | None:
    """What a job still has to do, in samples' worth of progress, by the mean of those of its family that have ended;
    None: none has."""
    done = [each.progress for each in family if each.completion_time]
    if not done:
        return None
    total = sum(done) / len(done)
    return float(max(total - job.progress, 0.05 * total) * init_batch)


def _adapter(base: type) -> Callable[[Policy, int], Any]:
    """The artifact tells apart its policies by their class."""

    class Adapter(base):  # type: ignore[misc]
        knowing: Callable[[str], Knowledge | None] = staticmethod(lambda name: None)

        def __init__(self, policy: Policy, copy: int) -> None:
            self.policy = policy
            self.names = [f"host-{index:02}" for index in range(16)]
            self.since: dict[str, tuple[list[int], float]] = {}
            self.ran: Counter[str] = Counter()
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
                held = list(before.get(name, ()))
                self.ran[name] += INTERVAL_S if held else 0
                if name not in self.since or self.since[name][0] != held:
                    self.since[name] = held, now - INTERVAL_S  # it was decided the last time
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
            goodput: GoodputFunction | None = None
            if (known := self.knowing(name)) is not None:
                goodput = known.goodput
            elif hasattr(info.speedup_fn, "_goodput_fn"):
                goodput = lambda nodes, gpus, gpu_type=None: info.speedup_fn(nodes, gpus)  # noqa: E731
            return JobView(
                name,
                info.creation_timestamp,
                1,
                1,
                info.max_replicas,
                True,
                attained_gpu_seconds=info.attained_service,
                run_seconds=float(self.ran[name]),
                restarts=info.num_restarts,
                allocation=dict(Counter(self.names[n] for n in held)),
                held_seconds=now - self.since[name][1] if held else None,
                goodput=goodput,
                resize_seconds=POLLUX.stall_up,
                remaining=None if known is None else known.remaining,
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
    fit_faster(importlib.import_module("goodput"))
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


def fit_faster(goodput: Any) -> None:
    import scipy.optimize

    search = scipy.optimize.minimize

    def minimize(objective: Any, start: Any, args: Any = (), jac: Any = None, **options: Any) -> Any:
        measured = [np.asarray(column, dtype=float) for column in args]
        with np.errstate(all="ignore"):
            return search(lambda x: _objective(x, *measured), start, jac=True, **options)

    goodput.scipy = types.SimpleNamespace(
        optimize=types.SimpleNamespace(minimize=minimize, Bounds=scipy.optimize.Bounds)
    )


def _objective(
    x: Floats, nodes: Floats, replicas: Floats, batch: Floats, grad_times: Floats, step_times: Floats
) -> tuple[float, Floats]:
    """The artifact's loss, and its gradient by the seven parameters."""
    alpha, beta, alpha_node, beta_node, alpha_local, beta_local, gamma = x
    remote, local = nodes > 1, (nodes <= 1) & (replicas > 1)
    further = np.maximum(replicas - 2, 1e-8)
    grad = alpha + beta * batch
    sync = np.where(remote, alpha_node, np.where(local, alpha_local, 1e-8))
    sync = sync + np.where(remote, beta_node, np.where(local, beta_local, 1e-8)) * further
    p, q = grad**gamma, sync**gamma
    total = p + q
    off_grad, off_step = np.log(grad) - np.log(grad_times), np.log(total) / gamma - np.log(step_times)
    rms_grad, rms_step = np.sqrt((off_grad**2).mean()), np.sqrt((off_step**2).mean())
    loss = rms_grad + rms_step + 1e-3 * (gamma - 1) ** 2
    loss += 1e-2 * ((beta_node / alpha_node) ** 2 + (beta_local / alpha_local) ** 2)
    of_grad, of_step = off_grad / (len(batch) * rms_grad), off_step / (len(batch) * rms_step)
    by_grad = of_grad / grad + of_step * p / grad / total
    by_sync = of_step * q / sync / total
    by_gamma = (p * np.log(grad) + q * np.log(sync)) / total / gamma - np.log(total) / gamma**2
    slope = [
        by_grad.sum(),
        (by_grad * batch).sum(),
        (by_sync * remote).sum() - 2e-2 * beta_node**2 / alpha_node**3,
        (by_sync * remote * further).sum() + 2e-2 * beta_node / alpha_node**2,
        (by_sync * local).sum() - 2e-2 * beta_local**2 / alpha_local**3,
        (by_sync * local * further).sum() + 2e-2 * beta_local / alpha_local**2,
        (of_step * by_gamma).sum() + 2e-3 * (gamma - 1),
    ]
    return float(loss), np.array(slope)
