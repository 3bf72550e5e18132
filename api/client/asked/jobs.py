"""Endpoints for single jobs, their code and their files."""

from __future__ import annotations

from schedulearn.api.client.asked.base import Asked, J, L, N, Steps, T, every_page
from schedulearn.api.client.transport import Json, part

_PAGE = 1000


class JobCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def set_priority(self, job_id: str, priority: int) -> J:
        return self._object("PATCH", f"jobs/{part(job_id)}", json={"priority": priority})

    def profile(self, job_id: str) -> J:
        """Return a job's measurements, and what follows from them."""
        return self._object("GET", f"jobs/{part(job_id)}/profile")

    def processes(self, job_id: str, rank: int | None = None) -> J:
        """Return the processes in a container of a job; without a rank, in the first container."""
        return self._object("GET", f"jobs/{part(job_id)}/processes", params={} if rank is None else {"rank": rank})

    def code_limits(self) -> J:
        """Return the limits of code that may be sent, and the image for jobs that name none."""
        return self._object("GET", "code")

    def files(self, job_id: str, path: str = "", *, host: str | None = None) -> J:
        """Return all that is directly in a folder: `{"path", "items", "hosts", "away"}`.

        Without a path: the job's folders."""
        only = {"host": host} if host else {}
        return self._steps(_whole_folder(job_id, {"path": path.strip("/"), "limit": _PAGE, **only}))


def _whole_folder(job_id: str, asked: Json) -> Steps:
    pages = yield from every_page(f"jobs/{part(job_id)}/files", asked)
    last = pages[-1]
    items = [item for page in pages for item in page["items"]]
    return {"path": last["path"], "items": items, "hosts": last["hosts"], "away": last["away"]}
