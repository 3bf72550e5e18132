"""Which policy decides; changed by one PUT, while jobs run."""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.instants import iso
from schedulearn.api.schemas import ChoiceOut, PolicyIn, PolicyOut, PreviewOut, Problem, ReplayOut, eta_view
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.control.service import DEFAULT_POLICY, ChosenPolicy, chosen_policy
from schedulearn.scheduler.core.snapshot import parts
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.registry import POLICIES, canonical_name, parameters_of, policy_of
from schedulearn.scheduler.reports.finished_jobs import kinds, load_finished_jobs
from schedulearn.scheduler.sim.replay import trace
from schedulearn.scheduler.store import history
from schedulearn.scheduler.store.cluster_state import load_gpu_leases

if TYPE_CHECKING:
    from schedulearn.scheduler.sim.forecast import Forecast, Totals

router = APIRouter(prefix="/api/v1", tags=["policy"])


@router.get("/policy", response_model=PolicyOut)
def get_policy(request: Request) -> Response:
    """The policy in force, and all that there are with their parameters."""
    cluster = cluster_of(request)
    with cluster.db.read() as db:
        choice = chosen_policy(db)
    return JsonResponse(policy_view(choice, cluster.service.policy_problem or cluster.loop.stats.policy_error))


@router.put("/policy", response_model=PolicyOut, responses={422: {"model": Problem}})
def put_policy(request: Request, body: PolicyIn) -> Response:
    """In force at the next decision, stored, and kept over restarts. Running jobs run on."""
    cluster = cluster_of(request)
    return cluster.service.set_policy(
        body.algorithm, body.metric, body.params, lambda db, choice: JsonResponse(policy_view(choice, problem=""))
    )


@router.get("/policy/preview", response_model=PreviewOut, responses={422: {"model": Problem}})
def preview(
    request: Request,
    algorithm: Annotated[str, Query(max_length=200)],
    metric: Annotated[str, Query(max_length=200)] = "default",
    params: Annotated[str, Query(max_length=10_000, description="a JSON object, as the PUT takes it")] = "{}",
) -> Response:
    """What another policy would do, now and until all jobs that there are have ended. Changes nothing; takes some
    seconds at most. Lengths that nobody knows are guessed: see `basis`."""
    try:
        given = json.loads(params)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"params is not JSON: {error}", field="params") from error
    if not isinstance(given, dict):
        raise InvalidError("params must be a JSON object", field="params")
    found, facts = cluster_of(request).forecaster.preview(policy_of(algorithm, metric, given))
    return JsonResponse(
        {
            "algorithm": canonical_name(algorithm),
            "metric": metric,
            "changes": [
                {
                    "job": change.job,
                    "name": facts[change.job].name,
                    **{key: getattr(change, key) for key in ("action", "before", "after", "code", "reason")},
                }
                for change in found.changes
            ],
            "unchanged": found.unchanged,
            "now": _totals(found.totals_now, found.now),
            "then": _totals(found.totals_then, found.then),
            "jobs": [
                {
                    "job": job_id,
                    "name": facts[job_id].name,
                    "now": eta_view(found.now.etas.get(job_id), found.now.until),
                    "then": eta_view(found.then.etas.get(job_id), found.then.until),
                }
                for job_id in facts
            ],
        }
    )


@router.get("/policy/history", response_model=list[ChoiceOut])
async def policies_in_force(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Response:
    """Since when which policy was in force, oldest first."""
    rows = await cluster_of(request).db.aread(lambda db: history.policies_in_force(db, limit))
    return JsonResponse(
        [{"at": iso(row.at), "algorithm": row.algorithm, "metric": row.metric, "params": row.params} for row in rows]
    )


@router.get("/policy/replay", response_model=ReplayOut)
def replay(request: Request, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> Response:
    """The last jobs that ended well as a trace for `schedulearn simulate`: what would another policy have made of them?
    Those that reported are elastic, with the profile of their family; others are rigid, for as long as they ran."""
    with cluster_of(request).db.read() as db:
        past = load_finished_jobs(db, limit)
        found = trace(past, kinds(db, past))
        gpus = load_gpu_leases(db).gpus
    part_of = parts(gpus)
    types = {part_of[gpu.uuid]: gpu.type for gpu in gpus}
    sizes = Counter(part_of[gpu.uuid] for gpu in gpus)
    hosts = [{"id": name, "gpus": count, "gpu_type": types[name]} for name, count in sorted(sizes.items())]
    return JsonResponse({**found, "hosts": hosts})


def _totals(totals: Totals, forecast: Forecast) -> dict[str, Any]:
    until = iso(forecast.until) if math.isfinite(forecast.until) else None
    return {**asdict(totals), "until": until, "cut": forecast.cut}


def policy_view(choice: ChosenPolicy | None, problem: str) -> dict[str, Any]:
    """`choice`: of the policy in force; None: nobody has chosen one yet."""
    return {
        "algorithm": choice.algorithm if choice else DEFAULT_POLICY,
        "metric": choice.metric if choice else "default",
        "params": choice.params if choice else {},
        "since": iso(choice.at) if choice else None,
        "problem": problem,
        "available": [
            {
                "name": name,
                "metrics": list(cls.metrics),
                "description": (inspect.getdoc(cls) or "").partition("\n\n")[0],
                "parameters": parameters_of(cls),
            }
            for name, cls in sorted(POLICIES.items())
        ],
    }
