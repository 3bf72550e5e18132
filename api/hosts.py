"""Hosts and their GPUs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from schedulearn.api.schemas import GpuOut, HostOut, Problem
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository

router = APIRouter(prefix="/api/v1", tags=["hosts"])
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}


@router.get("/hosts", response_model=list[HostOut])
def list_hosts(request: Request) -> Response:
    return JSONResponse(host_views(cluster_of(request)))


@router.get("/hosts/{host_id}", response_model=HostOut, responses=_UNKNOWN)
def get_host(request: Request, host_id: str) -> Response:
    return JSONResponse(_one(cluster_of(request), host_id))


@router.get("/gpus", response_model=list[GpuOut])
def list_gpus(request: Request) -> Response:
    return JSONResponse([gpu for host in host_views(cluster_of(request)) for gpu in host["gpus"]])


@router.post("/hosts/{host_id}/cordon", response_model=HostOut, responses=_UNKNOWN)
def cordon(request: Request, host_id: str) -> Response:
    """Its jobs go on; no others come."""
    return _set_state(request, host_id, "cordoned")


@router.post("/hosts/{host_id}/uncordon", response_model=HostOut, responses=_UNKNOWN)
def uncordon(request: Request, host_id: str) -> Response:
    """Back to service."""
    return _set_state(request, host_id, "active")


def _set_state(request: Request, host_id: str, state: str) -> Response:
    cluster = cluster_of(request)
    cluster.service.set_host_state(host_id, state)
    return JSONResponse(_one(cluster, host_id))


def _one(cluster: Cluster, host_id: str) -> dict[str, Any]:
    for view in host_views(cluster):
        if view["id"] == host_id:
            return view
    raise NotFoundError(f"there is no host {host_id!r}")


def host_views(cluster: Cluster) -> list[dict[str, Any]]:
    """Every host with its GPUs and who holds them."""
    with cluster.db.read() as db:
        books = repository.load_books(db)
    job_of = {task.id: task.job_id for task in books.tasks}
    views = []
    for host in books.hosts:
        agent = cluster.agents.get(host.id)
        grip = agent.grip if agent is not None else None
        gpus = [
            {
                "uuid": gpu.uuid,
                "host": gpu.host_id,
                "index": gpu.ordinal,
                "type": gpu.type,
                "memory_bytes": gpu.memory_bytes,
                "simulated": gpu.simulated,
                "utilization": cluster.host.utilization(gpu.uuid),
                "jobs": [job_of[task] for _, task in sorted(books.leases.get(gpu.uuid, {}).items()) if task in job_of],
            }
            for gpu in books.gpus
            if gpu.host_id == host.id
        ]
        views.append(
            {
                "id": host.id,
                "address": host.address,
                "runtime": host.runtime,
                "state": host.state,
                "reachable": grip is not None and grip.observation is not None,
                "error": grip.error if grip is not None else "not connected",
                "labels": host.labels,
                "gpus": gpus,
            }
        )
    return views
