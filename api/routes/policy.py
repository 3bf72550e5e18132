"""Which policy decides; changed by one PUT, while jobs run."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulearn.api.answers.job import EtaOut
from schedulearn.api.answers.model import Answer
from schedulearn.api.answers.policy import (
    ChangeOut,
    ChoiceOut,
    ComparedPolicy,
    ComparisonOut,
    JobPreview,
    PolicyKind,
    PolicyOut,
    PreviewOut,
    ReplayHost,
    ReplayOut,
    TotalsOut,
)
from schedulearn.api.answers.problem import problems
from schedulearn.api.requests import PolicyIn
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.api.turns import COMPUTING, turns_of
from schedulearn.scheduler.control.forecaster import StoppedError
from schedulearn.scheduler.control.service import DEFAULT_POLICY, ChosenPolicy, chosen_policy
from schedulearn.scheduler.core.named_jobs import named_jobs
from schedulearn.scheduler.core.planning.snapshot import parts
from schedulearn.scheduler.errors import InvalidError, PolicyFault
from schedulearn.scheduler.policies.registry import POLICIES, canonical_name, parameters_of, policy_of
from schedulearn.scheduler.reports.finished_jobs import kinds, load_finished_jobs
from schedulearn.scheduler.sim.replay import trace
from schedulearn.scheduler.store import history, repository
from schedulearn.scheduler.store.cluster_state import load_gpu_leases
from schedulearn.scheduler.store.people.visibility import names_of_jobs, told, visible_jobs

if TYPE_CHECKING:
    from schedulearn.scheduler.sim.forecast import Forecast
    from schedulearn.scheduler.sim.preview import Totals

router = APIRouter(prefix="/api/v1", tags=["policy"])

Hours = Annotated[int, Query(ge=1, le=168, description="hours to simulate")]
_LOOK_S, _FRESH_S = 0.5, 60.0
_FIGURES = tuple(name for name in TotalsOut.model_fields if name != "cut")


@router.get("/policy")
def get_policy(request: Request) -> PolicyOut:
    """Return the policy in force, and all available policies.

    Metrics and parameters of each are included."""
    cluster = cluster_of(request)
    with cluster.db.read() as db:
        choice = chosen_policy(db)
    return _policy_out(choice, cluster.service.policy_problem or cluster.loop.stats.policy_error)


@router.put("/policy", response_model=PolicyOut, responses=problems(422))
def put_policy(request: Request, body: PolicyIn) -> Response:
    """Change the policy, from the next decision on.

    The choice is stored, and survives restarts. Running jobs continue."""
    cluster = cluster_of(request)
    return cluster.service.set_policy(
        body.algorithm, body.metric, body.params, lambda db, choice: Answer(_policy_out(choice, problem=""))
    )


@router.get("/policy/preview", responses=problems(422), dependencies=COMPUTING)
def preview(
    request: Request,
    algorithm: Annotated[str, Query(max_length=200)],
    metric: Annotated[str, Query(max_length=200)] = "default",
    params: Annotated[str, Query(max_length=10_000, description="parameters as a JSON object, as in PUT")] = "{}",
    hours: Hours = 24,
) -> PreviewOut:
    """Simulate another policy: changes at once and within `hours`.

    Nothing is changed. It takes some seconds at most. Unknown run times are estimated: see `basis`."""
    try:
        given = json.loads(params)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"params is not JSON: {error}", field="params") from error
    if not isinstance(given, dict):
        raise InvalidError("params must be a JSON object", field="params")
    cluster = cluster_of(request)
    now, then, facts = cluster.forecaster.preview(policy_of(algorithm, metric, given), hours * 3600)
    with cluster.db.read() as db:
        shown = set(visible_jobs(db, facts))
        names = names_of_jobs(db, set().union(*(named_jobs(change.reason) for change in then.changes)))
    return PreviewOut(
        algorithm=canonical_name(algorithm),
        metric=metric,
        until=then.until,
        changes=[
            ChangeOut.model_validate(
                {**vars(change), "name": facts[change.job].name, "reason": told(change.reason, names)}
            )
            for change in then.changes
            if change.job in shown
        ],
        unchanged=then.unchanged,
        now=_totals(now.totals, now.forecast.cut),
        then=_totals(then.totals, then.forecast.cut),
        jobs=[
            JobPreview(job=job_id, name=about.name, now=_eta(now.forecast, job_id), then=_eta(then.forecast, job_id))
            for job_id, about in facts.items()
            if job_id in shown
        ],
    )


@router.get("/policy/comparison", response_model=ComparisonOut)
async def comparison(request: Request, hours: Hours = 24) -> Answer:
    """Simulate all policies with the current jobs, over the same time.

    The policy in force comes first. The others have their default parameters. Nothing is changed. The computation takes
    at most 8 s of CPU time. The result is reused for a minute while nothing changes. At most 500 jobs are simulated:
    all jobs with GPUs, then the oldest others."""
    gone = threading.Event()
    async with turns_of(request).computing(request):
        computing = asyncio.ensure_future(run_in_threadpool(_compared, request, hours, gone.is_set))
        while not (await asyncio.wait([computing], timeout=_LOOK_S))[0]:
            if await request.is_disconnected():
                gone.set()
        return await computing


def _compared(request: Request, hours: int, stopped: Callable[[], bool]) -> Answer:
    """What was answered for the same state stands for _FRESH_S."""
    cluster, kept = cluster_of(request), request.app.state.comparisons
    with cluster.db.read() as db:
        choice = chosen_policy(db)
        key = (hours, repository.last_event_id(db), cluster.profiles.version)
    if kept and kept[0] == key and time.monotonic() < kept[1]:
        return Answer(_for_reader(kept[2]))
    try:
        found = _comparison(cluster, choice, hours, stopped)
    except StoppedError as error:
        raise HTTPException(408, "the client has closed the connection") from error
    request.app.state.comparisons = (key, time.monotonic() + _FRESH_S, found)
    return Answer(_for_reader(found))


def _for_reader(found: ComparisonOut) -> ComparisonOut:
    shown = [each.model_copy(update={"problem": told(each.problem, ())}) for each in found.policies]
    return found.model_copy(update={"policies": shown})


def _comparison(
    cluster: Cluster, choice: ChosenPolicy | None, hours: int, stopped: Callable[[], bool]
) -> ComparisonOut:
    known = [(name, metric) for name, cls in sorted(POLICIES.items()) for metric in cls.metrics]
    now = (choice.algorithm, choice.metric) if choice else (DEFAULT_POLICY, "default")
    others = [each for each in known if each != now]
    compared = cluster.forecaster.compare([policy_of(*each, {}) for each in others], hours * 3600, stopped)
    found = compared.found
    return ComparisonOut(
        until=compared.until,
        beyond=compared.beyond,
        jobs=max((each.jobs for each in found if not isinstance(each, PolicyFault)), default=0),
        left_out=max((each.left_out for each in found if not isinstance(each, PolicyFault)), default=0),
        policies=[
            ComparedPolicy(
                algorithm=name,
                metric=metric,
                params=dict(choice.params) if choice and (name, metric) == now else {},
                in_force=(name, metric) == now,
                problem=str(each) if isinstance(each, PolicyFault) else "",
                totals=None if isinstance(each, PolicyFault) else _totals(each.totals, each.cut),
            )
            for (name, metric), each in zip([now, *others], found, strict=True)
        ],
    )


@router.get("/policy/history")
async def policies_in_force(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> list[ChoiceOut]:
    """Return the policies in force over time, oldest first."""
    rows = await cluster_of(request).db.aread(lambda db: history.policies_in_force(db, limit))
    return [ChoiceOut.model_validate(row) for row in rows]


@router.get("/policy/replay", dependencies=COMPUTING)
def replay(request: Request, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> ReplayOut:
    """Return the latest successful jobs as a trace for `schedulearn simulate`.

    Jobs that reported are elastic, with the profile of their family. Others are rigid, with their actual run time."""
    with cluster_of(request).db.read() as db:
        past = load_finished_jobs(db, limit)
        found = trace(past, kinds(db, past))
        gpus = load_gpu_leases(db).gpus
    part_of = parts(gpus)
    types = {part_of[gpu.uuid]: gpu.type for gpu in gpus}
    sizes = Counter(part_of[gpu.uuid] for gpu in gpus)
    hosts = [ReplayHost(id=name, gpus=count, gpu_type=types[name]) for name, count in sorted(sizes.items())]
    return ReplayOut(applications=found["applications"], jobs=found["jobs"], hosts=hosts)


def _eta(forecast: Forecast, job_id: str) -> EtaOut | None:
    eta = forecast.etas.get(job_id)
    return EtaOut.of(eta, forecast.until) if eta is not None else None


def _totals(totals: Totals | None, cut: str) -> TotalsOut:
    figures = vars(totals) if totals else dict.fromkeys(_FIGURES)
    return TotalsOut.model_validate({**figures, "cut": cut})


def _policy_out(choice: ChosenPolicy | None, problem: str) -> PolicyOut:
    """`choice`: of the policy in force; None: nobody has chosen one yet."""
    return PolicyOut(
        algorithm=choice.algorithm if choice else DEFAULT_POLICY,
        metric=choice.metric if choice else "default",
        params=dict(choice.params) if choice else {},
        since=choice.at if choice else None,
        problem=told(problem, ()),
        available=[
            PolicyKind(
                name=name,
                metrics=list(cls.metrics),
                description=(inspect.getdoc(cls) or "").partition("\n\n")[0],
                parameters=parameters_of(cls),
            )
            for name, cls in sorted(POLICIES.items())
        ],
    )
