"""Hosts and their GPUs."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Row
from starlette.responses import Response

from schedulearn.api.answers.host import (  # fmt: skip
    ClusterOut,
    GpuOut,
    GpuReadingOut,
    GpuState,
    HostOut,
    HostProblemOut,
    ScalingOut,
)
from schedulearn.api.answers.model import unchecked
from schedulearn.api.answers.problem import problems
from schedulearn.api.answers.resources import HostResourcesOut
from schedulearn.api.requests import DrainIn, HostLabelsIn
from schedulearn.api.state import Cluster, cluster_of
from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.core.job_image import cuda_on
from schedulearn.scheduler.disk_room import is_low
from schedulearn.scheduler.errors import NotFoundError
from schedulearn.scheduler.hosts.observer import NOT_CONTACTED
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.job_list import failed_since
from schedulearn.scheduler.store.repository import Hosts

router = APIRouter(prefix="/api/v1", tags=["hosts"])
_FIRST_CONTACT_S = 10.0
_DAY_S = 86_400.0


@router.get("/hosts")
async def list_hosts(request: Request) -> list[HostOut]:
    cluster = cluster_of(request)
    return show_hosts(cluster, await cluster.db.aread(repository.load_hosts))


@router.get("/hosts/{host_id}", responses=problems(404))
async def get_host(request: Request, host_id: str) -> HostOut:
    cluster = cluster_of(request)
    return _one(cluster, await cluster.db.aread(repository.load_hosts), host_id)


@router.get("/gpus")
async def list_gpus(request: Request) -> list[GpuOut]:
    cluster = cluster_of(request)
    hosts = show_hosts(cluster, await cluster.db.aread(repository.load_hosts))
    return [gpu for host in hosts for gpu in host.gpus]


@router.get("/cluster")
async def cluster_totals(request: Request) -> ClusterOut:
    """Return the size and load of the cluster."""
    cluster = cluster_of(request)
    found = await cluster.db.aread(repository.load_hosts)
    open_hosts = {
        host.id
        for host in found.hosts
        if host.state == "active" and not host.gpu_fault and _reachable(cluster, host.id)
    }
    used = sum(1 for gpu in found.gpus if found.holders.get(gpu.uuid))
    free = sum(
        1 for gpu in found.gpus if gpu.host_id in open_hosts and _state(gpu, found.holders.get(gpu.uuid, [])) == "free"
    )
    jobs = await cluster.db.aread(repository.count_jobs)
    wanted = await cluster.db.aread(lambda db: repository.gpus_wanted(db, time.time()))
    failed = await cluster.db.aread(lambda db: failed_since(db, time.time() - _DAY_S))
    measured = cluster.utility()
    low, high = measured.low, measured.high
    return ClusterOut(
        hosts=len(found.hosts),
        gpus=len(found.gpus),
        gpus_used=used,
        gpus_free=free,
        gpus_wanted=wanted,
        jobs=jobs,
        failed_24h=failed,
        utility=measured.utility,
        utility_range=[low, high] if low is not None and high is not None else None,
        desired_hosts=cluster.loop.desired_hosts,
        scaling=ScalingOut.of(cluster.settings),
        disk_low=is_low(cluster.data_dir),
    )


@router.post("/hosts", status_code=201, responses=problems(409, 422))
def add_host(request: Request, body: HostSpec) -> HostOut:
    """Add a host with a Docker Engine, and return its problems.

    It waits some seconds for the first connection. A host that does not answer is kept, and tried again."""
    cluster = cluster_of(request)
    cluster.fleet.add(body)
    end = time.monotonic() + _FIRST_CONTACT_S
    agent = cluster.agents.get(body.name)
    while agent is not None and agent.status.error == NOT_CONTACTED and time.monotonic() < end:
        time.sleep(0.05)
    return _host(cluster, body.name)


@router.delete("/hosts/{host_id}", status_code=204, responses=problems(404, 409, 422))
def remove_host(request: Request, host_id: str, force: bool = False) -> Response:
    """Remove a host.

    `force`: also with job containers on it. The jobs start again elsewhere."""
    cluster_of(request).fleet.remove(host_id, force=force)
    return Response(status_code=204)


@router.post("/hosts/{host_id}/cordon", responses=problems(404))
def cordon(request: Request, host_id: str) -> HostOut:
    """Cordon a host: its jobs continue, no new ones start there."""
    cluster_of(request).fleet.set_state(host_id, "cordoned")
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/uncordon", responses=problems(404))
def uncordon(request: Request, host_id: str) -> HostOut:
    """Return a cordoned or drained host to service."""
    cluster_of(request).fleet.set_state(host_id, "active")
    return _host(cluster_of(request), host_id)


@router.patch("/hosts/{host_id}/labels", responses=problems(404, 422))
def label_host(request: Request, host_id: str, body: HostLabelsIn) -> HostOut:
    """Set and remove labels of a host, which jobs name in `hosts` and `exclude_hosts`.

    Other labels stay. Running jobs are not affected."""
    cluster_of(request).fleet.label(host_id, body.labels)
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/drain", responses=problems(404))
def drain(request: Request, host_id: str, body: DrainIn) -> HostOut:
    """Drain a host: no new jobs start there, its jobs leave.

    Elastic jobs leave now. Others are stopped at the deadline, and start again elsewhere."""
    cluster_of(request).fleet.drain(host_id, body.deadline_s)
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/gpus/{gpu}/cordon", responses=problems(404))
def cordon_gpu(request: Request, host_id: str, gpu: str) -> HostOut:
    """Cordon a GPU, given by index or UUID.

    Its job continues, and no other starts on it. A drain of the GPU ends."""
    cluster_of(request).fleet.close_gpu(host_id, gpu)
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/gpus/{gpu}/drain", responses=problems(404))
def drain_gpu(request: Request, host_id: str, gpu: str, body: DrainIn) -> HostOut:
    """Drain a GPU: no new jobs start on it, its jobs leave.

    An elastic job leaves now. Others are stopped at the deadline, and start again on other GPUs."""
    cluster_of(request).fleet.close_gpu(host_id, gpu, body.deadline_s)
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/gpus/{gpu}/reset", responses=problems(404, 409, 502))
def reset_gpu(request: Request, host_id: str, gpu: str) -> HostOut:
    """Reset an idle GPU, given by index or UUID, with `nvidia-smi`.

    Its errors are forgotten. The response comes after the reset, or says why it is impossible."""
    cluster_of(request).monitor.reset_gpu(host_id, gpu)
    return _host(cluster_of(request), host_id)


@router.post("/hosts/{host_id}/gpus/{gpu}/return", responses=problems(404, 409, 422))
def return_gpu(request: Request, host_id: str, gpu: str) -> HostOut:
    """Return a cordoned, drained or unhealthy GPU to service.

    The GPU is given by index or UUID. Its errors so far are forgotten. A GPU that the host no longer has is removed."""
    cluster_of(request).monitor.return_gpu(host_id, gpu)
    return _host(cluster_of(request), host_id)


def _host(cluster: Cluster, host_id: str) -> HostOut:
    with cluster.db.read() as db:
        return _one(cluster, repository.load_hosts(db), host_id)


def _one(cluster: Cluster, hosts: Hosts, host_id: str) -> HostOut:
    for host in show_hosts(cluster, hosts):
        if host.id == host_id:
            return host
    raise NotFoundError(f"there is no host {host_id!r}")


def show_hosts(cluster: Cluster, hosts: Hosts) -> list[HostOut]:
    """Every host with its GPUs and who holds them. `hosts`: what `repository.load_hosts` gave."""
    by_host: dict[str, list[GpuOut]] = {}
    for gpu in hosts.gpus:
        by_host.setdefault(gpu.host_id, []).append(_gpu(cluster, gpu, hosts.holders.get(gpu.uuid, [])))
    return [_shown(cluster, host, by_host.get(host.id, [])) for host in hosts.hosts]


def _shown(cluster: Cluster, host: Row[Any], gpus: list[GpuOut]) -> HostOut:
    agent = cluster.agents.get(host.id)
    status = agent.status if agent is not None else None
    facts = status.facts if status is not None else None
    found = facts.problems if facts is not None else ()
    problems = [HostProblemOut(code=problem.code, message=problem.message) for problem in found]
    found_gpus = cluster.monitor.gpus(host.id)
    if found_gpus.real and found_gpus.driver and (why := cuda_on(host.id, facts, found_gpus).why):
        message = f"{why[:1].upper()}{why[1:]}. Jobs with GPUs that name schedulearn/pytorch don't start there."
        problems.append(HostProblemOut(code="old_driver", message=message))
    if why := cluster.monitor.problem(host.id):
        problems.append(HostProblemOut(code="gpus", message=f"{why[:1].upper()}{why[1:]}."))
    if host.gpu_fault:
        message = (
            f"It takes no more jobs with GPUs: {host.gpu_fault}. `schedulearn hosts uncordon {host.id}` opens it again."
        )
        problems.append(HostProblemOut(code="gpu_starts", message=message))
    taken = cluster.resources.host(host.id)
    return HostOut.model_validate(
        {
            "id": host.id,
            "address": host.address,
            "runtime": host.runtime,
            "state": "draining" if host.drain_until is not None else host.parking or host.state,
            "drain_until": host.drain_until,
            "origin": host.origin,
            "reachable": status is not None and status.observation is not None,
            "error": status.error if status is not None else "not connected",
            "lost_at": host.lost_at,
            "version": facts.version if facts is not None else "",
            "cpus": facts.cpus if facts is not None else None,
            "memory_bytes": facts.memory_bytes if facts is not None else None,
            "problems": problems,
            "network": host.network,
            "labels": host.labels,
            "gpus": gpus,
            "resources": HostResourcesOut.of(taken) if taken is not None else None,
        }
    )


def _reachable(cluster: Cluster, host_id: str) -> bool:
    agent = cluster.agents.get(host_id)
    return agent is not None and agent.status.observation is not None


def _state(gpu: Row[Any], jobs: list[str]) -> GpuState:
    if gpu.fault or jobs:
        return "unhealthy" if gpu.fault else "used"
    if gpu.unwatched or gpu.occupied:
        return "unwatched" if gpu.unwatched else "occupied"
    return "cordoned" if gpu.cordoned else "free"


def _gpu(cluster: Cluster, gpu: Row[Any], jobs: list[str]) -> GpuOut:
    reading = cluster.monitor.reading(gpu.uuid)
    return unchecked(
        GpuOut,
        {
            "uuid": gpu.uuid,
            "host": gpu.host_id,
            "index": gpu.ordinal,
            "type": gpu.type,
            "memory_bytes": gpu.memory_bytes,
            "simulated": gpu.simulated,
            "state": _state(gpu, jobs),
            "fault": gpu.fault,
            "unwatched": gpu.unwatched,
            "warnings": list(cluster.monitor.warnings(gpu.host_id, gpu.uuid)),
            "occupied_by": gpu.occupied,
            "cordoned": gpu.cordoned,
            "drain_until": None if gpu.drain_until is None else shown(gpu.drain_until),
            "island": gpu.island,
            "numa": gpu.numa,
            "pci": gpu.pci,
            "utilization": reading.utilization if reading is not None else cluster.host.utilization(gpu.uuid),
            "reading": GpuReadingOut.of(reading) if reading is not None else None,
            "jobs": [job for job in jobs if job],
        },
    )
