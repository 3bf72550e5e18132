"""Responses about hosts, their GPUs and the whole cluster."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At, unchecked
from schedulearn.api.answers.resources import HostResourcesOut
from schedulearn.metrics.probe.readings import GpuReading
from schedulearn.scheduler.settings import ClusterSettings


class GpuProcessOut(AnswerModel):
    pid: int
    name: str
    memory_bytes: int | None = Field(description="used bytes of GPU memory")
    container: str = Field(description="ID of its container; empty: none, or unknown")
    uid: int | None = Field(description="user ID of the process on the host")


class GpuReadingOut(AnswerModel):
    """Latest reading of a GPU; values are null if unknown."""

    memory_bytes: float | None = Field(description="used bytes")
    temperature: float | None = Field(description="degrees Celsius")
    slowdown_temperature: float | None = Field(
        description="temperature above which the GPU lowers its clocks, degrees Celsius"
    )
    power_w: float | None
    power_limit_w: float | None = Field(description="power limit")
    energy_j: float | None = Field(description="counter since the driver was loaded")
    sm_mhz: float | None
    memory_mhz: float | None
    ecc_errors: int | None = Field(description="uncorrected errors since the driver was loaded")
    xid: int | None = Field(description="latest Xid error")
    throttle: list[str] = Field(description="reasons why its clocks are lowered")
    processes: list[GpuProcessOut] | None

    @classmethod
    def of(cls, reading: GpuReading) -> Self:
        processes = reading.processes
        return unchecked(
            cls,
            {
                **{name: getattr(reading, name) for name in _READ},
                "throttle": list(reading.throttle),
                "processes": None if processes is None else [GpuProcessOut.model_validate(each) for each in processes],
            },
        )


_READ = [name for name in GpuReadingOut.model_fields if name not in ("throttle", "processes")]


GpuState = Literal["free", "used", "occupied", "unhealthy", "unwatched", "cordoned"]


class GpuOut(AnswerModel):
    uuid: str
    host: str
    index: int
    type: str
    memory_bytes: int
    simulated: bool
    state: GpuState = Field(
        description="occupied: used by a process of no job; unhealthy: not used until it is returned; unwatched: its "
        "state is unknown, and no job starts there; cordoned: closed by an operator, and idle"
    )
    fault: str = Field(description="reason why it is unhealthy")
    unwatched: str = Field(description="reason why its state is unknown; jobs on it continue")
    warnings: list[str] = Field(description="problems that do not prevent its use")
    occupied_by: str = Field(description="other users of the GPU than jobs")
    cordoned: bool = Field(description="whether an operator cordoned it: its job continues, no other starts")
    drain_until: At | None = Field(description="time at which its jobs are stopped; null: it is not drained")
    island: int | None = Field(description="GPUs of a host with the same number are connected by NVLink")
    numa: int | None = Field(description="its NUMA node; null: unknown, or the only one")
    pci: str = Field(description="PCI bus ID; for a MIG device, that of its GPU; empty: unknown")
    utilization: float | None = Field(description="percent; null: unknown")
    reading: GpuReadingOut | None = Field(description="null: no reading in the last seconds")
    jobs: list[str] = Field(description="IDs of the jobs that hold it")


class HostProblemOut(AnswerModel):
    code: str
    message: str


class HostOut(AnswerModel):
    id: str
    address: str
    runtime: str
    state: str = Field(
        description="active; cordoned: its jobs continue, no new ones start; draining: its jobs leave as well; "
        "emptying, then parked: powered down until the policy needs it"
    )
    drain_until: At | None = Field(description="time at which its jobs are stopped")
    origin: str = Field(description="source of the host: embedded, settings or api")
    reachable: bool
    error: str = Field(description="reason why it is not reachable")
    lost_at: At | None = Field(
        description="time at which it was declared lost, after `host_grace` without an answer; null: it answers"
    )
    version: str = Field(description="version of its Docker Engine; empty for local processes")
    cpus: int | None
    memory_bytes: int | None
    problems: list[HostProblemOut] = Field(description="problems that do not prevent its use")
    network: str = Field(description="configured network of jobs on several hosts")
    labels: dict[str, str]
    gpus: list[GpuOut]
    resources: HostResourcesOut | None = Field(
        description="current use of resources; null: the host does not answer, or its use is unknown"
    )


class ScalingOut(AnswerModel):
    """Settings by which hosts are parked and woken."""

    least: int = Field(description="minimum hosts that are on")
    most: int | None = Field(description="maximum hosts that are on; null: all")
    initial: int | None = Field(
        description="hosts that are on for `window` seconds after the start of the service; null: all"
    )
    target: float | None = Field(
        description="target share of used GPUs; null: hosts follow the policy, or the needs of jobs"
    )
    window: float = Field(description="scale-down stabilization window, seconds")
    hook: bool = Field(
        description="whether a hook switches hosts off and on; without one, they are only marked as parked"
    )

    @classmethod
    def of(cls, settings: ClusterSettings) -> Self | None:
        rule = settings.scaling_rule
        if rule is None:
            return None
        return cls(
            least=rule.least,
            most=rule.most,
            initial=rule.initial,
            target=rule.target,
            window=settings.scale_window,
            hook=bool(settings.scaling_hook),
        )


class ClusterOut(AnswerModel):
    hosts: int
    gpus: int
    gpus_used: int
    gpus_free: int = Field(
        description="GPUs that are neither held, occupied nor unhealthy, on hosts that are reachable and active"
    )
    gpus_wanted: int = Field(description="GPUs required by all waiting jobs together")
    jobs: dict[str, int] = Field(description="number of jobs in each state")
    failed_24h: int = Field(description="jobs that failed or reached their time limit in the last 24 hours")
    utility: float | None = Field(
        description="sum of the jobs' speedups divided by the number of usable GPUs; null: the policy has no speedups"
    )
    utility_range: list[float] | None = Field(
        description="range of `utility` within which the number of hosts does not change"
    )
    desired_hosts: int | None = Field(
        description="number of hosts that should be on; null: hosts are not parked, and the policy does not decide"
    )
    scaling: ScalingOut | None = Field(description="null: hosts are not parked")
    disk_low: bool = Field(
        description="whether the disk of the service's data is almost full: jobs, code, data and log lines are then "
        "refused"
    )
