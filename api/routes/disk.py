"""What takes room on a host, and images fetched before a job needs them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.core.needs import Image, Need, job_of_key
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.contract import Stored
from schedulearn.scheduler.specs.job import ImageName
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.people.visibility import seeing_all, visible_jobs

router = APIRouter(prefix="/api/v1/hosts/{host_id}", tags=["hosts"])
_REFUSED = problems(404, 409)


class ImageOut(AnswerModel):
    name: str
    bytes: int = Field(description="bytes of all its layers, including those shared with other images")
    own_bytes: int = Field(description="bytes of its own layers, which its removal frees")
    used_at: At | None = Field(
        description="time of the last use by a job; null: never used, or in use by an unfinished job"
    )
    in_use: bool = Field(description="whether an unfinished job uses it")


class StoredOut(AnswerModel):
    job: str = Field(validation_alias="name")
    bytes: int


class DataCopyOut(AnswerModel):
    key: str = Field(description="digest of a version of data, or `job:` and the ID of the job whose outputs it holds")
    bytes: int = Field(description="bytes on disk; 0: a link to outputs on the host")


class FetchOut(AnswerModel):
    image: str
    percent: float | None = Field(description="percent; null: the last fetch failed, or has just begun")
    message: str


class DiskOut(AnswerModel):
    images_bytes: int = Field(description="bytes of all images together")
    images: list[ImageOut]
    checkpoints: list[StoredOut]
    outputs: list[StoredOut]
    data: list[DataCopyOut]
    fetches: list[FetchOut]


class FetchIn(BaseModel):
    image: ImageName


@router.get("/disk", responses=_REFUSED)
def disk(request: Request, host_id: str) -> DiskOut:
    """Return the disk use of a host, largest items first.

    The host is asked, which may take some seconds."""
    cluster = cluster_of(request)
    agent = _agent(cluster, host_id)
    with seeing_all():
        found, used = cluster.housekeeping.of_host(agent)
    of_jobs = {each.name for each in (*found.checkpoints, *found.outputs)}
    of_jobs |= {job for each in found.data if (job := job_of_key(each.name)) is not None}
    with cluster.db.read() as db:
        shown = set(visible_jobs(db, of_jobs))
    images = [
        ImageOut.model_validate(
            {
                "name": image.name,
                "bytes": image.bytes,
                "own_bytes": image.own_bytes,
                "used_at": used.get(image.name),
                "in_use": image.name in used and used[image.name] is None,
            }
        )
        for image in found.images
    ]
    return DiskOut(
        images_bytes=found.images_bytes,
        images=sorted(images, key=lambda image: -image.bytes),
        checkpoints=_largest_first([each for each in found.checkpoints if each.name in shown]),
        outputs=_largest_first([each for each in found.outputs if each.name in shown]),
        data=[
            DataCopyOut(key=each.name, bytes=each.bytes)
            for each in sorted(found.data, key=_bytes, reverse=True)
            if job_of_key(each.name) in {None, *shown}
        ],
        fetches=_fetches(agent),
    )


def _largest_first(found: Sequence[Stored]) -> list[StoredOut]:
    return [StoredOut.model_validate(each) for each in sorted(found, key=_bytes, reverse=True)]


def _bytes(stored: Stored) -> int:
    return stored.bytes


@router.post("/images", status_code=202, responses=_REFUSED)
def fetch(request: Request, host_id: str, body: FetchIn) -> list[FetchOut]:
    """Begin to pull an image on a host.

    The registry is asked even if the host has an image of this name, because a tag may have been moved. `disk` shows
    the progress."""
    agent = _agent(cluster_of(request), host_id)
    message = f"The image {body.image} is fetched on {host_id}."
    cluster_of(request).db.write(
        lambda conn: repository.add_event(conn, time.time(), "host.image_requested", host_id=host_id, message=message)
    )
    agent.fetch(body.image, anew=True)
    return _fetches(agent)


def _agent(cluster: Cluster, host_id: str) -> HostAgent:
    agent = cluster.agents.get(host_id)
    if agent is None:
        raise NotFoundError(f"there is no host {host_id!r}")
    if agent.status.observation is None:
        raise ConflictError(f"{host_id} does not answer: {agent.status.error}")
    return agent


def _fetches(agent: HostAgent) -> list[FetchOut]:
    return [
        FetchOut(image=name, percent=None, message=state)
        if isinstance(state, str)
        else FetchOut(image=name, percent=state.percent, message=state.message)
        for name, state in sorted(
            ((_fetch_name(need), state) for need, state in agent.fetches().items()), key=lambda fetch: fetch[0]
        )  # one image may be pulled with several logins
    ]


def _fetch_name(need: Need) -> str:
    return need.name if isinstance(need, Image) else f"data {need.key}"
