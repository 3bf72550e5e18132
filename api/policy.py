"""Which policy decides; changed by one PUT, while jobs run."""

from __future__ import annotations

import inspect
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.schemas import PolicyIn, PolicyOut, Problem, iso
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.policy import POLICIES, metrics_of, parameters_of
from schedulearn.scheduler.service import DEFAULT_POLICY
from schedulearn.scheduler.store import repository

router = APIRouter(prefix="/api/v1", tags=["policy"])


@router.get("/policy", response_model=PolicyOut)
def get_policy(request: Request) -> Response:
    """The policy in force, and all that there are with their parameters."""
    return JsonResponse(policy_view(cluster_of(request)))


@router.put("/policy", response_model=PolicyOut, responses={422: {"model": Problem}})
def put_policy(request: Request, body: PolicyIn) -> Response:
    """In force at the next decision, stored, and kept over restarts. Running jobs run on."""
    cluster = cluster_of(request)
    cluster.service.set_policy(body.algorithm, body.metric, body.params)
    return JsonResponse(policy_view(cluster))


def policy_view(cluster: Cluster) -> dict[str, Any]:
    with cluster.db.read() as db:
        row = repository.current_policy(db)
    return {
        "algorithm": row.algorithm if row else DEFAULT_POLICY,
        "metric": row.metric if row else "default",
        "params": row.params if row else {},
        "since": iso(row.at) if row else None,
        "problem": cluster.service.policy_problem or cluster.loop.stats.policy_error,
        "available": [
            {
                "name": name,
                "metrics": list(metrics_of(cls)),
                "description": (inspect.getdoc(cls) or "").partition("\n\n")[0],
                "parameters": parameters_of(cls),
            }
            for name, cls in sorted(POLICIES.items())
        ],
    }
