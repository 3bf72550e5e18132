"""Routes to a job's port, by a ticket for its origin."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import Answer, AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import actor_of, cluster_of, grant_of, settings_of
from schedulearn.features.interactive.ports.origins import PortKey, origin_of
from schedulearn.features.interactive.ports.proxy import ENTER
from schedulearn.features.interactive.worker import Interactive
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.specs.ports import LONGEST
from schedulearn.scheduler.store import repository

router = APIRouter(prefix="/api/v1", tags=["jobs"])

Name = Annotated[str, Path(min_length=1, max_length=LONGEST, description="name of a port of the job")]


class NoOriginError(ConflictError):
    """There is no address at which a browser could find a job's port."""

    code = "no_port_address"


class PortLink(AnswerModel):
    url: str = Field(description="link that opens the port in a browser, once")
    expires_at: At = Field(description="time at which the link expires; a browser that has opened it stays logged in")
    origin: str = Field(description="origin of the port; requests with the header Authorization need no link")


@router.post(
    "/jobs/{job_id}/ports/{name}", status_code=201, response_model=PortLink, responses=problems(403, 404, 409, 422)
)
async def make_link(request: Request, job_id: str, name: Name) -> Response:
    """Create a link that opens a port of a job in a browser.

    Only the job's user and admins can do this."""
    return Answer(_link(request, PortKey(job_id, name)), 201, headers={"cache-control": "no-store"})


@router.get(
    "/jobs/{job_id}/ports/{name}", status_code=303, response_class=RedirectResponse,
    responses=problems(403, 404, 409, 422),
)  # fmt: skip
@needs(Access.OWN)
async def open_port(request: Request, job_id: str, name: Name) -> Response:
    """Redirect a browser to a port of a job.

    The page links to this. Only the job's user and admins can use it."""
    link = _link(request, PortKey(job_id, name))
    return RedirectResponse(link.url, 303, {"cache-control": "no-store"})


def _link(request: Request, key: PortKey) -> PortLink:
    with cluster_of(request).db.read() as conn:
        job = repository.get_job(conn, key.job_id)
    ports = job.spec.get("ports", {})
    if key.name not in ports:
        known = ", ".join(sorted(ports)) or "none"
        raise NotFoundError(f"job {key.job_id} has no port {key.name!r}; it has: {known} (key ports)")
    if JobState(job.state).terminal:
        raise ConflictError(f"job {key.job_id} has ended: nothing listens on its ports any more")
    settings = settings_of(request)
    origin = origin_of(key, service=request.headers["host"], scheme=request.url.scheme, domain=settings.ports_domain)
    if origin is None:
        raise NoOriginError(
            f"there is no address for ports of jobs: the operator can set ports_domain; until then "
            f"`schedulearn forward {key.job_id} {ports[key.name]}` brings it to your machine"
        )
    sessions = cluster_of(request).worker(Interactive).port_sessions
    ticket, ends = sessions.ticket(key, actor_of(request), grant_of(request))
    return PortLink.model_validate({"url": f"{origin}{ENTER}?ticket={ticket}", "expires_at": ends, "origin": origin})
