"""The simulator of Sia's authors (siasosp23/artifacts, folder `sia-simulator`), with a policy of ours in it, or Sia
itself. Nothing of it is kept here: whoever runs this gives the path of a checkout.

It needs pandas. Sia itself needs cvxpy and a solver of integer programs; else both are left out, as are the other
policies' libraries. The fit of step times has its own objective and search, for Sia as for us, with
the gradient written out: seven times as fast, and it predicts the same to 1e-5.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.policies.artifact import INTERVAL_S, Holdings, old_pandas, samples_left, stub
from schedulearn.policy import HostView, JobView, Plan, Snapshot, make_policy

Floats = npt.NDArray[np.float64]
Held = tuple[str | None, Sequence[int]]
"""GPU type, and the host of each GPU, as the artifact counts hosts within a type; (None, ()): nothing."""

SIA = "sia"
FAMILIES = " with families"
"""Behind a metric: lengths are predicted by jobs of the same application that have ended, as this service does it."""
SETTINGS = {"project_throughputs": True, "share_max_replicas": True}
"""Sia's own, as its authors ran it for their table 3; the rest are its defaults."""


class Ended(NamedTuple):
    """One job of a run. Seconds."""

    name: str
    submitted_at: float
    ended_at: float
    restarts: int
    gpu_seconds: Mapping[str, float]
    """By type of GPU."""


def play(artifact: Path, workload: Path, contender: str) -> list[Ended]:
    """The jobs of one trace on the cluster of the artifact's settings: 24 T4, 24 2080Ti and 16 A100 as they are
    published. `contender`: SIA, or a metric of our policy `goodput`, or that and FAMILIES."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        sia, simulation, settings, pandas = _load(artifact)
        policy = sia.SiaPolicy(**SETTINGS) if contender == SIA else _adapter(sia)(contender.removesuffix(FAMILIES))
        hosts = settings.cluster_nnodes
        widths = {kind: settings.cluster_ngpus_per_node[kind] for kind in hosts}
        policy.populate_valid_configs(hosts, widths, settings.cluster_max_physical_nnodes)
        cluster = simulation.Cluster(
            pandas.read_csv(workload), policy, hosts, widths, settings.cluster_max_physical_nnodes
        )
        if contender.endswith(FAMILIES):
            policy.samples_left = lambda name: _samples_left(cluster, name)
        held: dict[str, Counter[str]] = {job.name: Counter() for job in cluster.jobs}
        while not cluster.all_complete():
            cluster.step(INTERVAL_S)
            del cluster.logs[:-1]  # each is as long as the trace
            for name, (kind, gpus) in cluster.allocations.items():
                if kind is not None:
                    held[name][kind] += len(gpus) * INTERVAL_S
    return [
        Ended(job.name, float(job.submission_time), float(job.completion_time), job.num_restarts or 0, held[job.name])
        for job in cluster.jobs
    ]


def _samples_left(cluster: Any, name: str) -> float | None:
    job = next(each for each in cluster.jobs if each.name == name)
    application = job.reference_app
    family = [each for each in cluster.jobs if each.reference_app is application]
    return samples_left(job, family, application.init_batch_size)


def missing(*, sia: bool) -> str:
    """What must be installed for our policies, or for Sia's, to be played; empty: nothing."""
    names = ("pandas", "cvxpy") if sia else ("pandas",)
    return " and ".join(name for name in names if importlib.util.find_spec(name) is None)


class _Seen:
    """What Sia's policy would reckon for one job, asked the way that ours asks. It is asked again and again for the
    same allocations in one decision."""

    def __init__(self, policy: Any, info: Any) -> None:
        self._policy, self._info = policy, info
        self._known: dict[tuple[bytes, bytes, str | None], Floats] = {}

    def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
        nodes, gpus = np.asarray(num_nodes, dtype=np.int64), np.asarray(num_gpus, dtype=np.int64)
        asked = (nodes.tobytes(), gpus.tobytes(), gpu_type)
        if asked not in self._known:
            found = self._policy._compute_goodputs_v2(self._info, gpu_type, nodes, gpus)
            self._known[asked] = np.asarray(found, dtype=float)
        return self._known[asked]


def _adapter(sia: Any) -> type:
    """The artifact tells apart its policies by their class, and so ours is one of Sia's."""

    class Adapter(sia.SiaPolicy):  # type: ignore[misc, name-defined]
        samples_left: Callable[[str], float | None] = staticmethod(lambda name: None)

        def __init__(self, metric: str) -> None:
            super().__init__(**SETTINGS)
            self.ours = make_policy("goodput", metric)
            self.holdings = Holdings()

        def optimize(
            self, jobs: Mapping[str, Any], nodes: Mapping[str, Mapping[int, Any]], before: Mapping[str, Held]
        ) -> dict[str, Held]:
            now = max((info.creation_timestamp + info.age for info in jobs.values()), default=0.0)
            hosts = tuple(
                HostView(_host(kind, index), node.resources["nvidia.com/gpu"], kind)
                for kind, of_kind in nodes.items()
                for index, node in of_kind.items()
            )
            held = packed({name: before[name] for name in jobs if name in before}, nodes)
            views = []
            for name, info in jobs.items():
                kind, places = held.get(name, (None, ()))
                self.holdings.see(name, Counter(f"{kind} {gpus}" for gpus in Counter(places).values()), now)
                views.append(self._view(name, info, Counter(_host(kind, index) for index in places), now))
            plan = self.ours.allocate(Snapshot(now, 0, hosts, tuple(views)))
            return {view.id: _given(view, plan, held.get(view.id, (None, ()))) for view in views}

        def _view(self, name: str, info: Any, allocation: Mapping[str, int], now: float) -> JobView:
            measured = any(function is not None for function in info.speedup_fn.values())
            goodput, left = _Seen(self, info) if measured else None, self.samples_left(name)
            remaining = None
            if goodput is not None and left is not None:
                one = np.ones(1, dtype=np.int64)  # GPU, of each type: the slowest is what work is measured by
                remaining = left / min(float(goodput(one, one, kind)[0]) for kind in info.speedup_fn)
            return JobView(
                name,
                info.creation_timestamp,
                1,
                1,
                max(info.max_replicas.values()),
                True,
                attained_gpu_seconds=info.attained_service,
                run_seconds=float(self.holdings.ran[name]),
                restarts=info.num_restarts,
                allocation=dict(allocation),
                # Sia leaves alone whoever is just restarting, and so do we.
                held_seconds=0.0 if info.scaling_underway else self.holdings.seconds(name, now),
                goodput=goodput,
                remaining=remaining,
                resize_seconds=float(sia.get_restart_penalty(name)),
            )

    return Adapter


def packed(before: Mapping[str, Held], nodes: Mapping[str, Mapping[int, Any]]) -> dict[str, Held]:
    """The same jobs in the same pieces, closer together: in the artifact a job restarts when its pieces change, not
    when they are on other hosts of the type, and Sia places all jobs anew each time."""
    found = dict(before)
    for kind, of_kind in nodes.items():
        free = {index: int(node.resources["nvidia.com/gpu"]) for index, node in of_kind.items()}
        pieces = {
            name: sorted(Counter(places).values(), reverse=True)
            for name, (its_kind, places) in before.items()
            if its_kind == kind and places
        }
        placed: dict[str, Held] = {}
        for name in sorted(pieces, key=lambda name: ([-piece for piece in pieces[name]], name)):
            hosts: list[int] = []
            for piece in pieces[name]:
                able = [(room, index) for index, room in free.items() if room >= piece and index not in hosts]
                if not able:
                    break
                index = min(able)[1]
                free[index] -= piece
                hosts += [index] * piece
            placed[name] = (kind, hosts)
        if all(len(placed[name][1]) == sum(pieces[name]) for name in pieces):
            found |= placed
    return found


def _host(kind: str | None, index: int) -> str:
    return f"{kind}/{index:02}"


def _given(view: JobView, plan: Plan, before: Held) -> Held:
    """What the plan gives the job, as the artifact says it; what it held already as it was said then: no restart."""
    wanted = {host: gpus for host, gpus in plan.allocations.get(view.id, {}).items() if gpus}
    if wanted == dict(view.allocation):
        return before
    if not wanted:
        return (None, ())
    kinds = {host.partition("/")[0] for host in wanted}
    if len(kinds) > 1:
        raise ValueError(f"{view.id} was given GPUs of several types: {wanted}")
    order = sorted(wanted, key=lambda host: (-wanted[host], host))
    return (kinds.pop(), [int(host.partition("/")[2]) for host in order for _ in range(wanted[host])])


def _load(artifact: Path) -> tuple[Any, Any, Any, Any]:
    """(its modules `sia`, `cluster` and `simulator_config`, pandas), made to run on today's libraries."""
    pandas = old_pandas(artifact)
    if missing(sia=True):
        stub("cvxpy")
    else:
        _solve_by_what_is_there()
    stub("gavel", GavelPolicy=type("GavelPolicy", (), {}))
    settings = importlib.import_module("simulator_config")
    settings.sia_solver_verbose = False
    _fit_faster(importlib.import_module("goodput"))
    return importlib.import_module("sia"), importlib.import_module("cluster"), settings, pandas


def _solve_by_what_is_there() -> None:
    """Sia asks for CBC. Where that is not installed, HiGHS solves the same problem as exactly."""
    cvxpy: Any = importlib.import_module("cvxpy")
    if "CBC" in cvxpy.installed_solvers() or hasattr(cvxpy.Problem, "solved_otherwise"):
        return
    solve = cvxpy.Problem.solve

    def solve_otherwise(problem: Any, **asked: Any) -> Any:
        return solve(problem, solver="SCIPY", scipy_options={"mip_rel_gap": asked["allowablePercentageGap"] / 100})

    cvxpy.Problem.solve, cvxpy.Problem.solved_otherwise = solve_otherwise, True


def _fit_faster(goodput: Any) -> None:
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
