"""Routes of searches. `routes/sweeps.py` cancels and retries them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy import Row
from sqlalchemy.engine import Connection
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.problem import problems
from schedulearn.api.requests import WITH_KEY
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.features.sweeps import table as store
from schedulearn.features.sweeps.answers.experiment import DefaultOut, SearchOut
from schedulearn.features.sweeps.routes.sweeps import started
from schedulearn.features.sweeps.search_rows import answer_of
from schedulearn.features.sweeps.search_spec import MAX_POINTS, SEARCH, SearchSpec
from schedulearn.features.sweeps.searcher import check_prices
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store.people.kin import Kin, owner_of

router = APIRouter(prefix="/api/v1", tags=["experiments"])


@router.post(
    "/searches", status_code=201, response_model=SearchOut, responses=problems(409, 422), openapi_extra=WITH_KEY
)
@needs(Access.USER)
def start_search(request: Request, body: SearchSpec) -> Response:
    """Start a search for the best GPU type, GPUs and batch size.

    It runs short trials of the job, one after another. It is durable when the response comes, and continues after a
    restart."""
    if body.goal != "time":
        check_prices(sorted(set(body.gpu_types)), cluster_of(request).settings.gpu_prices)
    return started(request, body.job, body.sweep, _shown, design=body.design_of, is_open=True)


@router.get("/searches/default", responses=problems(404))
def get_default(
    request: Request, family: Annotated[str, Query(min_length=1, max_length=500, description="family of the job")]
) -> DefaultOut:
    """Return the configuration found by the newest search for a family.

    The search was yours or your group's. `schedulearn submit --as-found` uses it."""
    with cluster_of(request).db.read() as db:
        row = answer_of(db, Kin(family, owner_of(db, actor_of(request).name)))
    if row is None:
        raise NotFoundError(f"no search of yours or your group has found a configuration for the family {family!r}")
    found = row.design["found"]
    return DefaultOut(
        family=family,
        search=row.id,
        gpu_type=found.get("gpu_type"),
        required_gpus=found["required_gpus"],
        batch_size=found.get("batch_size"),
    )


@router.get("/searches/{sweep_id}", responses=problems(404))
def get_search(request: Request, sweep_id: str) -> SearchOut:
    """Return the progress of a search, its curve, and its result."""
    with cluster_of(request).db.read() as db:
        row = store.get_sweep(db, sweep_id)
        if (row.design or {}).get("design") != SEARCH:
            raise NotFoundError(f"{sweep_id} is a sweep, not a search")
        return _shown(db, row)


def _shown(db: Connection, row: Row[Any]) -> SearchOut:
    runs = store.list_runs(db, row.id, "", limit=MAX_POINTS)
    return SearchOut.of_search(row, store.progress_of(db, [row.id])[row.id], runs)
