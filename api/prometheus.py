"""Prometheus metrics of the cluster, read from the database when scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from schedulearn.api.answers.host import GpuOut
from schedulearn.api.routes.hosts import show_hosts
from schedulearn.api.routes.resources import visible_tasks
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.store import repository

_LABELS = ["UUID", "gpu", "Hostname", "modelName"]
_DCGM = {
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization in percent",
    "DCGM_FI_DEV_FB_USED": "GPU memory in use in MiB",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature in degrees Celsius",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw in W",
    "DCGM_FI_DEV_XID_ERRORS": "The last Xid error; 0 if there was none",
}
"""Metrics with the names of NVIDIA's exporter, so that dashboards made for it work. They also have its labels."""


def exposition(cluster: Cluster) -> bytes:
    """Return the metrics in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ClusterCollector(cluster))
    return generate_latest(registry)


class _ClusterCollector(Collector):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def collect(self) -> Iterator[Metric]:
        with self.cluster.db.read() as db:
            counts = repository.count_jobs(db)
            deleted = repository.deleted_of(db, "jobs")
            resizes = repository.count_resizes(db)
            hosts = repository.load_hosts(db)
            held = repository.held_gpus(db)
        jobs = GaugeMetricFamily("schedulearn_jobs", "Jobs in each state", labels=["state"])
        for state, count in counts.items():
            jobs.add_metric([state], count)
        yield jobs
        yield CounterMetricFamily(
            "schedulearn_jobs_submitted", "Jobs ever submitted", value=sum(counts.values()) + deleted
        )
        yield CounterMetricFamily("schedulearn_resizes", "Resizes of running jobs", value=resizes)
        gpus = GaugeMetricFamily("schedulearn_gpus", "GPUs", labels=["host", "gpu_type", "state"])
        families = {name: GaugeMetricFamily(name, text, labels=_LABELS) for name, text in _DCGM.items()}
        for host in show_hosts(self.cluster, hosts):
            tally: dict[tuple[str, str], int] = {}
            for gpu in host.gpus:
                state = host.state if gpu.state == "free" and host.state != "active" else gpu.state
                tally[gpu.type, state] = tally.get((gpu.type, state), 0) + 1
                labels = [gpu.uuid, str(gpu.index), host.id, gpu.type]
                for name, value in _values(gpu).items():
                    if value is not None:
                        families[name].add_metric(labels, value)
            for (gpu_type, state), count in tally.items():
                gpus.add_metric([host.id, gpu_type, state], count)
        yield gpus
        yield from families.values()
        yield from _resources(self.cluster)
        if (utility := self.cluster.loop.utility) is not None:
            yield GaugeMetricFamily(
                "schedulearn_cluster_utility",
                "Sum of the jobs' speedups divided by the number of usable GPUs",
                value=utility,
            )
        yield from _waits(self.cluster)
        yield _held(held)
        stats = self.cluster.loop.stats
        yield SummaryMetricFamily(
            "schedulearn_decision_seconds",
            "Time of the policy's decisions",
            count_value=stats.decisions,
            sum_value=stats.decision_seconds,
        )


MAX_USERS = 20
"""Maximum users with a series of their own: those that hold most GPUs."""
OTHERS = "other users"
"""Label of the rest. It is no user: names of users have no space."""


def _held(held: Mapping[str, int]) -> Metric:
    """Return the GPUs that users hold."""
    family = GaugeMetricFamily(
        "schedulearn_user_gpus", "GPUs that a user's jobs hold; a shared GPU counts for each job", labels=["user"]
    )
    most = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    for user, gpus in most[:MAX_USERS]:
        family.add_metric([user], gpus)
    if rest := most[MAX_USERS:]:
        family.add_metric([OTHERS], sum(gpus for _, gpus in rest))
    return family


def _waits(cluster: Cluster) -> Iterator[Metric]:
    """Yield the waiting times of jobs that started since the start of the service."""
    family = HistogramMetricFamily(
        "schedulearn_job_wait_seconds",
        "Time from a job's submission, start_after or release to its first start",
        labels=["policy"],
    )
    for policy, (buckets, total) in cluster.loop.waits.by_policy().items():
        family.add_metric([policy], buckets, total)
    yield family


_TASK_LABELS = ["job", "attempt", "rank", "host"]
_HOST_GAUGES = {
    "cpus": "Cores of a host",
    "memory_total_bytes": "Memory of a host",
    "memory_used_bytes": "Memory of a host in use",
    "disk_total_bytes": "Size of the disk of the service's or the engine's data",
    "disk_used_bytes": "Used part of the disk of the service's or the engine's data",
}
_HOST_COUNTERS = {
    "network_receive_bytes": "Bytes that a host's network cards received",
    "network_transmit_bytes": "Bytes that a host's network cards sent",
    "disk_read_bytes": "Bytes that were read from a host's disks",
    "disk_written_bytes": "Bytes that were written to a host's disks",
}
_TASK_COUNTERS = {
    "cpu_seconds": "Processor time used by a running container",
    "network_receive_bytes": "Bytes that a running container received",
    "network_transmit_bytes": "Bytes that a running container sent",
    "disk_read_bytes": "Bytes that a running container read from disks",
    "disk_written_bytes": "Bytes that a running container wrote to disks",
}


def _resources(cluster: Cluster) -> Iterator[Metric]:
    """Yield the resource metrics of hosts and tasks.

    Counters are as engines report them: Prometheus computes the rates."""
    gauges = {
        name: GaugeMetricFamily(f"schedulearn_host_{name}", text, labels=["host"])
        for name, text in _HOST_GAUGES.items()
    }
    busy = CounterMetricFamily(
        "schedulearn_host_cpu_seconds", "Time for which a host's processors were busy", labels=["host"]
    )
    passed = {
        name: CounterMetricFamily(f"schedulearn_host_{name}", text, labels=["host"])
        for name, text in _HOST_COUNTERS.items()
    }
    counters = {
        name: CounterMetricFamily(f"schedulearn_task_{name}", text, labels=_TASK_LABELS)
        for name, text in _TASK_COUNTERS.items()
    }
    memory = GaugeMetricFamily("schedulearn_task_memory_bytes", "Memory of a running container", labels=_TASK_LABELS)
    limit = GaugeMetricFamily(
        "schedulearn_task_memory_limit_bytes", "Memory limit of a running container", labels=_TASK_LABELS
    )
    for host_id in cluster.agents:
        if (host := cluster.resources.host(host_id)) is not None:
            found = host.counters
            sizes = (found.cpus, found.memory_total, found.memory_bytes, found.disk_total, found.disk_bytes)
            for gauge, value in zip(gauges.values(), sizes, strict=True):
                gauge.add_metric([host_id], value)
            busy.add_metric([host_id], found.cpu_seconds)
            told = (found.network_in, found.network_out, found.disk_read, found.disk_written)
            for through, amount in zip(passed.values(), told, strict=True):
                if amount is not None:
                    through.add_metric([host_id], amount)
        for task_id, reading in visible_tasks(cluster, host_id).items():
            labels = [*map(str, parse_task_id(task_id) or (task_id, "", "")), host_id]
            taken = reading.counters
            memory.add_metric(labels, taken.memory_bytes)
            if taken.memory_limit is not None:
                limit.add_metric(labels, taken.memory_limit)
            sums = (taken.cpu_seconds, taken.network_in, taken.network_out, taken.disk_read, taken.disk_written)
            for counter, total in zip(counters.values(), sums, strict=True):
                if total is not None:
                    counter.add_metric(labels, total)
    yield from (*gauges.values(), busy, *passed.values(), *counters.values(), memory, limit)


def _values(gpu: GpuOut) -> dict[str, float | None]:
    """Return the values of a GPU by the names of `_DCGM`."""
    reading = gpu.reading
    memory = reading.memory_bytes if reading is not None else None
    return {
        "DCGM_FI_DEV_GPU_UTIL": gpu.utilization,
        "DCGM_FI_DEV_FB_USED": None if memory is None else memory / (1 << 20),
        "DCGM_FI_DEV_GPU_TEMP": reading.temperature if reading is not None else None,
        "DCGM_FI_DEV_POWER_USAGE": reading.power_w if reading is not None else None,
        "DCGM_FI_DEV_XID_ERRORS": (reading.xid or 0) if reading is not None else None,
    }
