"""Hosts and their GPUs."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.instants import iso
from schedulearn.api.schemas import ClusterOut, DrainIn, GpuOut, GpuProcessOut, GpuReadingOut, HostOut, Problem
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.core.host_facts import HostProblem
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.hosts.observer import NOT_CONTACTED
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.repository import Hosts

router = APIRouter(prefix="/api/v1", tags=["hosts"])
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}
_REFUSED: dict[int | str, dict[str, Any]] = {409: {"model": Problem}, 422: {"model": Problem}}
_FIRST_CONTACT_S = 10.0


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
    found = await cluster.db.aread(repository.load_hosts)
    open_hosts = {host.id for host in found.hosts if host.state == "active" and _reachable(cluster, host.id)}
    used = sum(1 for gpu in found.gpus if found.holders.get(gpu.uuid))
    free = sum(
        1 for gpu in found.gpus if gpu.host_id in open_hosts and _state(gpu, found.holders.get(gpu.uuid, [])) == "free"
    )
    jobs = await cluster.db.aread(repository.count_jobs)
    wanted = await cluster.db.aread(repository.gpus_wanted)
    sizes = {"hosts": len(found.hosts), "gpus": len(found.gpus)}
    measured = cluster.utility()
    return JsonResponse(
        {
            **sizes,
            "gpus_used": used,
            "gpus_free": free,
            "gpus_wanted": wanted,
            "jobs": jobs,
            "utility": measured.utility,
            "utility_range": [measured.low, measured.high] if measured.low is not None else None,
            "desired_hosts": cluster.loop.desired_hosts,
        }
    )


@router.post("/hosts", status_code=201, response_model=HostOut, responses=_REFUSED)
def add_host(request: Request, body: HostSpec) -> Response:
    """Adds a Docker Engine, and says what is wrong with it: it waits some seconds for the first contact. A host that
    does not answer is kept and tried again and again."""
    cluster = cluster_of(request)
    cluster.fleet.add(body)
    end = time.monotonic() + _FIRST_CONTACT_S
    agent = cluster.agents.get(body.name)
    while agent is not None and agent.status.error == NOT_CONTACTED and time.monotonic() < end:
        time.sleep(0.05)
    return _view(cluster, body.name, status_code=201)


@router.delete("/hosts/{host_id}", status_code=204, responses={**_UNKNOWN, **_REFUSED})
def remove_host(request: Request, host_id: str, force: bool = False) -> Response:
    """Forgets a host. `force`: although jobs have containers there; they start again elsewhere."""
    cluster_of(request).fleet.remove(host_id, force=force)
    return Response(status_code=204)


@router.post("/hosts/{host_id}/cordon", response_model=HostOut, responses=_UNKNOWN)
def cordon(request: Request, host_id: str) -> Response:
    """Its jobs go on; no others come."""
    cluster_of(request).fleet.set_state(host_id, "cordoned")
    return _view(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/uncordon", response_model=HostOut, responses=_UNKNOWN)
def uncordon(request: Request, host_id: str) -> Response:
    """Back to service."""
    cluster_of(request).fleet.set_state(host_id, "active")
    return _view(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/drain", response_model=HostOut, responses=_UNKNOWN)
def drain(request: Request, host_id: str, body: DrainIn) -> Response:
    """No job comes any more; elastic ones leave now, others are stopped at the deadline and start elsewhere."""
    cluster_of(request).fleet.drain(host_id, body.deadline_s)
    return _view(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/gpus/{gpu}/return", response_model=HostOut, responses={**_UNKNOWN, **_REFUSED})
def return_gpu(request: Request, host_id: str, gpu: str) -> Response:
    """Gives an unhealthy GPU, by its index or UUID, back to service: its errors up to now are forgiven. One that the
    host does not show any more is forgotten."""
    cluster_of(request).monitor.return_gpu(host_id, gpu)
    return _view(cluster_of(request), host_id)


def _view(cluster: Cluster, host_id: str, status_code: int = 200) -> Response:
    with cluster.db.read() as db:
        return JsonResponse(_one(cluster, repository.load_hosts(db), host_id), status_code=status_code)


def _one(cluster: Cluster, hosts: Hosts, host_id: str) -> dict[str, Any]:
    for view in host_views(cluster, hosts):
        if view["id"] == host_id:
            return view
    raise NotFoundError(f"there is no host {host_id!r}")


def host_views(cluster: Cluster, hosts: Hosts) -> list[dict[str, Any]]:
    """Every host with its GPUs and who holds them. `hosts`: what `repository.load_hosts` gave."""
    views = []
    by_host: dict[str, list[Any]] = {}
    for gpu in hosts.gpus:
        by_host.setdefault(gpu.host_id, []).append(gpu)
    for host in hosts.hosts:
        agent = cluster.agents.get(host.id)
        status = agent.status if agent is not None else None
        facts = status.facts if status is not None else None
        gpus = [_gpu_view(cluster, gpu, hosts.holders.get(gpu.uuid, [])) for gpu in by_host.get(host.id, ())]
        problems = list(facts.problems) if facts is not None else []
        if why := cluster.monitor.problem(host.id):
            problems.append(HostProblem("gpus", f"{why[:1].upper()}{why[1:]}."))
        views.append(
            {
                "id": host.id,
                "address": host.address,
                "runtime": host.runtime,
                "state": "draining" if host.drain_until is not None else host.parking or host.state,
                "drain_until": iso(host.drain_until),
                "origin": host.origin,
                "reachable": status is not None and status.observation is not None,
                "error": status.error if status is not None else "not connected",
                "lost_at": iso(host.lost_at),
                "version": facts.version if facts is not None else "",
                "cpus": facts.cpus if facts is not None else None,
                "memory_bytes": facts.memory_bytes if facts is not None else None,
                "problems": [{"code": p.code, "message": p.message} for p in problems],
                "network": host.network,
                "labels": host.labels,
                "gpus": gpus,
            }
        )
    return views


def _reachable(cluster: Cluster, host_id: str) -> bool:
    agent = cluster.agents.get(host_id)
    return agent is not None and agent.status.observation is not None


def _state(gpu: Any, jobs: list[str]) -> str:
    return "unhealthy" if gpu.fault else "used" if jobs else "occupied" if gpu.occupied else "free"


def _gpu_view(cluster: Cluster, gpu: Any, jobs: list[str]) -> dict[str, Any]:
    reading = cluster.monitor.reading(gpu.uuid)
    return {
        "uuid": gpu.uuid,
        "host": gpu.host_id,
        "index": gpu.ordinal,
        "type": gpu.type,
        "memory_bytes": gpu.memory_bytes,
        "simulated": gpu.simulated,
        "state": _state(gpu, jobs),
        "fault": gpu.fault,
        "occupied_by": gpu.occupied,
        "island": gpu.island,
        "numa": gpu.numa,
        "utilization": reading.utilization if reading is not None else cluster.host.utilization(gpu.uuid),
        "reading": None if reading is None else {
            **{name: getattr(reading, name) for name in _SHOWN},
            "processes": None if reading.processes is None else [
                {name: getattr(process, name) for name in GpuProcessOut.model_fields} for process in reading.processes
            ],
        },
        "jobs": jobs,
    }  # fmt: skip


_SHOWN = [name for name in GpuReadingOut.model_fields if name != "processes"]
