"""Hosts and their GPUs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.schemas import ClusterOut, GpuOut, HostOut, Problem
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.repository import Hosts

router = APIRouter(prefix="/api/v1", tags=["hosts"])
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}


@router.get("/hosts", response_model=list[HostOut])
async def list_hosts(request: Request) -> Response:
    cluster = cluster_of(request)
    return JsonResponse(host_views(cluster, await cluster.db.aread(repository.load_hosts)))


@router.get("/hosts/{host_id}", response_model=HostOut, responses=_UNKNOWN)
async def get_host(request: Request, host_id: str) -> Response:
    cluster = cluster_of(request)
    return JsonResponse(_one(cluster, await cluster.db.aread(repository.load_hosts), host_id))


@router.get("/gpus", response_model=list[GpuOut])
async def list_gpus(request: Request) -> Response:
    cluster = cluster_of(request)
    views = host_views(cluster, await cluster.db.aread(repository.load_hosts))
    return JsonResponse([gpu for host in views for gpu in host["gpus"]])


@router.get("/cluster", response_model=ClusterOut)
async def cluster_totals(request: Request) -> Response:
    """How much there is, and how much of it is used."""
    cluster = cluster_of(request)
    views = host_views(cluster, await cluster.db.aread(repository.load_hosts))
    gpus = [(host, gpu) for host in views for gpu in host["gpus"]]
    used = sum(1 for _, gpu in gpus if gpu["jobs"])
    free = sum(1 for host, gpu in gpus if not gpu["jobs"] and host["reachable"] and host["state"] == "active")
    jobs = await cluster.db.aread(repository.count_jobs)
    return JsonResponse({"hosts": len(views), "gpus": len(gpus), "gpus_used": used, "gpus_free": free, "jobs": jobs})


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
    with cluster.db.read() as db:
        return JsonResponse(_one(cluster, repository.load_hosts(db), host_id))


def _one(cluster: Cluster, hosts: Hosts, host_id: str) -> dict[str, Any]:
    for view in host_views(cluster, hosts):
        if view["id"] == host_id:
            return view
    raise NotFoundError(f"there is no host {host_id!r}")


def host_views(cluster: Cluster, hosts: Hosts) -> list[dict[str, Any]]:
    """Every host with its GPUs and who holds them. `hosts`: what `repository.load_hosts` gave."""
    views = []
    for host in hosts.hosts:
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
                "jobs": hosts.holders.get(gpu.uuid, []),
            }
            for gpu in hosts.gpus
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
