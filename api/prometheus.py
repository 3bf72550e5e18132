"""The cluster's figures in Prometheus' terms, read from the database when asked."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from schedulearn.api.hosts import host_views
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.store import repository


def exposition(cluster: Cluster) -> bytes:
    """The text format that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ClusterCollector(cluster))
    return generate_latest(registry)


class _ClusterCollector(Collector):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def collect(self) -> Iterator[Metric]:
        with self.cluster.db.read() as db:
            counts = repository.count_jobs(db)
            resizes = repository.count_events(db, "job.resizing")
            hosts = repository.load_hosts(db)
        jobs = GaugeMetricFamily("schedulearn_jobs", "Jobs in each state", labels=["state"])
        for state, count in counts.items():
            jobs.add_metric([state], count)
        yield jobs
        yield CounterMetricFamily("schedulearn_jobs_submitted", "Jobs ever submitted", value=sum(counts.values()))
        yield CounterMetricFamily("schedulearn_resizes", "Resizes of running jobs", value=resizes)
        gpus = GaugeMetricFamily("schedulearn_gpus", "GPUs", labels=["host", "gpu_type", "state"])
        load = GaugeMetricFamily(
            "DCGM_FI_DEV_GPU_UTIL", "GPU utilisation in per cent", labels=["UUID", "gpu", "Hostname"]
        )
        for host in host_views(self.cluster, hosts):
            tally: dict[tuple[str, str], int] = {}
            for gpu in host["gpus"]:
                state = "used" if gpu["jobs"] else "free" if host["state"] == "active" else host["state"]
                tally[gpu["type"], state] = tally.get((gpu["type"], state), 0) + 1
                if gpu["utilization"] is not None:
                    load.add_metric([gpu["uuid"], str(gpu["index"]), host["id"]], gpu["utilization"])
            for (gpu_type, state), count in tally.items():
                gpus.add_metric([host["id"], gpu_type, state], count)
        yield gpus
        yield load
        stats = self.cluster.loop.stats
        yield SummaryMetricFamily(
            "schedulearn_decision_seconds",
            "Time that the policy took to decide",
            count_value=stats.decisions,
            sum_value=stats.decision_seconds,
        )
