"""Routes of maintenance windows. Admins add and delete them, everybody sees them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.answers.model import Answer, AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.window import WindowOut
from schedulearn.api.requests import RowId
from schedulearn.api.state import cluster_of
from schedulearn.features.maintenance.spec import WindowSpec, values_of
from schedulearn.scheduler.store import windows

router = APIRouter(prefix="/api/v1", tags=["maintenance"])


class WindowList(AnswerModel):
    items: list[WindowOut]


@router.get("/maintenance")
def list_windows(request: Request) -> WindowList:
    """Return the maintenance windows that are not over, the next one first."""
    with cluster_of(request).db.read() as db:
        return WindowList(items=[WindowOut.of(each) for each in windows.load_windows(db)])


@router.post("/maintenance", status_code=201, response_model=WindowOut, responses=problems(404, 409, 422))
def add_window(request: Request, body: WindowSpec) -> Response:
    """Add a maintenance window.

    No job starts that would run into it. Its hosts are drained at its begin, and return at its end."""
    cluster = cluster_of(request)
    now = cluster.service.clock()
    values = values_of(body, cluster.settings.zone, now)
    answer = cluster.db.write(lambda db: Answer(WindowOut.of(windows.add_window(db, values, now)), 201))
    cluster.service.wake()
    return answer


@router.delete("/maintenance/{window_id}", status_code=204, responses=problems(404))
def delete_window(request: Request, window_id: RowId) -> Response:
    """Delete a maintenance window. Hosts that it has drained return to service."""
    cluster = cluster_of(request)
    cluster.db.write(lambda db: windows.delete_window(db, window_id, cluster.service.clock()))
    cluster.service.wake()
    return Response(status_code=204)
