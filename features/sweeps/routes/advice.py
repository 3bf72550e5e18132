"""Route of advice."""

from __future__ import annotations

from fastapi import APIRouter, Request

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.api.turns import COMPUTING
from schedulearn.features.sweeps.advice_spec import AdviceSpec
from schedulearn.features.sweeps.answers.advice import AdviceOut
from schedulearn.features.sweeps.worker import worker_of

router = APIRouter(prefix="/api/v1", tags=["experiments"])


@router.post("/advise", responses=problems(409, 422), dependencies=COMPUTING)
@needs(Access.USER)
def advise(request: Request, body: AdviceSpec) -> AdviceOut:
    """Return the batch size and number of GPUs that meet an objective.

    The prediction uses finished jobs of the same family, of the job's user or their group. Nothing is stored. It takes
    seconds."""
    cluster = cluster_of(request)
    body.job["user"] = actor_of(request).user_of(body.job.get("user"))
    return AdviceOut.of(worker_of(request).advisor.advise(body), cluster.settings.currency)
