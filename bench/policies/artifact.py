"""The simulator of Pollux's authors (petuum/adaptdl, branch `osdi21-artifact`, folder `simulator`), with a policy of
ours in it. Nothing of it is kept here: whoever runs this gives the path of a checkout.

It needs pandas. Its genetic algorithm and autograd are left out: our policies need neither. The fit of step times has
its own objective and search, with the gradient written out: seven times as fast, and it predicts the same to 1e-5.
"""

from __future__ import annotations

import importlib
import random
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from schedulearn.policy import HostView, JobView, Snapshot, make_policy
from schedulearn.scheduler.sim.conditions import POLLUX

Floats = npt.NDArray[np.float64]


def play(
    artifact: Path, workload: Path, algorithm: str, metric: str, shifts: Sequence[float], copy: int
) -> dict[str, float]:
    """Job -> seconds from submission to end, on 16 hosts of 4 GPUs, decided every 60 s. `shifts`: of each arrival."""
    simulator, pandas = _load(artifact)
    rows = pandas.read_csv(workload)
    rows["time"] = [max(0.0, time + shift) for time, shift in zip(rows["time"], shifts, strict=True)]
    policy = _adapter(simulator.PolluxPolicy)(algorithm, metric, copy)
    cluster = simulator.Cluster(rows, policy, 16, num_gpus=4)
    while not cluster.all_complete():
        cluster.step(60)
    return {name: float(seconds) for name, seconds in cluster.get_jcts().items()}


def _adapter(base: type) -> Callable[[str, str, int], Any]:
    """The artifact tells apart its policies by their class."""

    class Adapter(base):  # type: ignore[misc]
        def __init__(self, algorithm: str, metric: str, copy: int) -> None:
            self.policy = make_policy(algorithm, metric)
            self.names = [f"host-{index:02}" for index in range(16)]
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
            hosts = tuple(HostView(self.names[n], node.resources["nvidia.com/gpu"], "t4") for n, node in nodes.items())
            views = tuple(self._view(name, info, before.get(name, ())) for name, info in jobs.items())
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

        def _view(self, name: str, info: Any, held: Sequence[int]) -> JobView:
            measured = hasattr(info.speedup_fn, "_goodput_fn")
            return JobView(
                name,
                info.creation_timestamp,
                1,
                1,
                info.max_replicas,
                True,
                attained_gpu_seconds=info.attained_service,
                run_seconds=info.age,
                restarts=info.num_restarts,
                allocation=dict(Counter(self.names[n] for n in held)),
                goodput=(lambda nodes, gpus, gpu_type=None: info.speedup_fn(nodes, gpus)) if measured else None,
                resize_seconds=POLLUX.stall_up,
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
