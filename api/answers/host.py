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
    memory_bytes: int | None = Field(description="of the GPU")
    container: str = Field(description="id of its container; empty: none, or unknown")
    uid: int | None = Field(description="of its user on the host")


class GpuReadingOut(AnswerModel):
    """The latest second of a GPU; null: it does not tell."""

    memory_bytes: float | None = Field(description="used")
    temperature: float | None = Field(description="degrees Celsius")
    slowdown_temperature: float | None = Field(description="degrees from which on it lowers its clocks")
    power_w: float | None
    power_limit_w: float | None = Field(description="it draws no more")
    energy_j: float | None = Field(description="a counter, since the driver was loaded")
    sm_mhz: float | None
    memory_mhz: float | None
    ecc_errors: int | None = Field(description="uncorrected ones since the driver was loaded")
    xid: int | None = Field(description="the last Xid error")
    throttle: list[str] = Field(description="why its clocks are lowered")
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
        description="occupied: a process of no job uses it; unhealthy: not used until it is returned; unwatched: it "
        "can't be asked now, no job starts there; cordoned: closed by an operator, and nobody has it"
    )
    fault: str = Field(description="why it is unhealthy")
    unwatched: str = Field(description="why it can't be asked now; jobs that have it go on")
    warnings: list[str] = Field(description="what is odd of it, although it can be used")
    occupied_by: str = Field(description="who uses it beside the jobs")
    cordoned: bool = Field(description="an operator closed it: its job goes on, no other starts")
    drain_until: At | None = Field(description="when what still runs on it is stopped; null: it is not drained")
    island: int | None = Field(description="GPUs of a host with the same number reach each other by NVLink")
    numa: int | None = Field(description="the NUMA node that it is attached to; null: there is one only, or unknown")
    pci: str = Field(description="its PCI bus id; of a MIG device: its GPU's; empty: not known")
    utilization: float | None = Field(description="per cent; null if unknown")
    reading: GpuReadingOut | None = Field(description="null where none came in the last seconds")
    jobs: list[str] = Field(description="ids of the jobs that hold it")


class HostProblemOut(AnswerModel):
    code: str
    message: str


class HostOut(AnswerModel):
    id: str
    address: str
    runtime: str
    state: str = Field(
        description="active; cordoned: its jobs go on, no new ones start; draining: they leave as well; emptying, then "
        "parked: off until the policy wants it"
    )
    drain_until: At | None = Field(description="when what still runs there is stopped")
    origin: str = Field(description="embedded, settings or api: who named it")
    reachable: bool
    error: str = Field(description="why it is not reachable")
    lost_at: At | None = Field(description="when it was found not to have answered for `host_grace`; null: it answers")
    version: str = Field(description="of its Docker Engine; empty for local processes")
    cpus: int | None
    memory_bytes: int | None
    problems: list[HostProblemOut] = Field(description="what is missing or odd there, although it can be used")
    network: str = Field(description="how other hosts reach it, where that was configured")
    labels: dict[str, str]
    gpus: list[GpuOut]
    resources: HostResourcesOut | None = Field(
        description="what is taken of it now; null: it does not answer, or this can't be told from here"
    )


class ScalingOut(AnswerModel):
    """How hosts are parked and woken, as the settings say."""

    least: int = Field(description="so many hosts are on, at least")
    most: int | None = Field(description="at most; null: all")
    initial: int | None = Field(description="for `window` after the start of the service; null: all")
    target: float | None = Field(
        description="share of the GPUs that should be used; null: hosts follow the policy's wish, or what jobs need"
    )
    window: float = Field(description="seconds for which fewer hosts must do before one is parked")
    hook: bool = Field(description="a hook switches them off and on; else they are only marked as parked")

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
    gpus_free: int = Field(description="neither held, occupied nor unhealthy, on hosts that are reachable and active")
    gpus_wanted: int = Field(description="required by the jobs in the queue, together")
    jobs: dict[str, int] = Field(description="jobs in each state")
    failed_24h: int = Field(description="jobs that failed, or ran out of their time, in the last 24 hours")
    utility: float | None = Field(description="speedups of all jobs over the GPUs; null: the policy knows none")
    utility_range: list[float] | None = Field(description="within it the number of hosts stays as it is")
    desired_hosts: int | None = Field(
        description="hosts that should be on; null: hosts are not parked, and the policy in force does not say"
    )
    scaling: ScalingOut | None = Field(description="null: no host is parked or woken")
    disk_low: bool = Field(
        description="the disk of the service's data is almost full: no jobs, code, data and log lines are taken"
    )
