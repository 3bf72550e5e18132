"""What an operator sets of the scheduler. A setting, its type and its default stand here and nowhere else.

`api/settings.py` adds the settings of the API, and reads them all from flags, the environment and a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schedulearn.scheduler.code.archive import MAX_BYTES
from schedulearn.scheduler.code.git import GIT_HOSTS
from schedulearn.scheduler.core.host_scaling import ScalingRule
from schedulearn.scheduler.core.outcomes.hangs import OnHang
from schedulearn.scheduler.data.manifest import MAX_BYTES as DATA_BYTES
from schedulearn.scheduler.data.manifest import MAX_FILES as DATA_FILES
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import ImageName, parse_size

Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
"""Bytes, or e.g. "50g"."""

RuntimeChoice = Literal["auto", "docker", "process"]


class ClusterSettings(BaseModel):
    """Every field is documented in docs/settings.md (a test says so). Times are in seconds, unless they say days."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # the service only makes the subclass

    database_url: str | None = Field(
        default=None,
        pattern=r"^(sqlite:////?[^/]|postgresql://)",
        description="another database than DATA/schedulearn.db: postgresql://user@host/name, see docs/operations.md, "
        "or sqlite:////var/lib/other.db",
    )
    runtime: RuntimeChoice = Field(
        default="auto", description="auto: Docker Engine where one answers, else local processes"
    )
    simulate_gpus: int | None = Field(
        default=None, ge=0, le=1024, description="number of simulated GPUs, in place of what NVML shows"
    )
    environments: dict[str, Path] = Field(
        default_factory=dict, description="process runtime: image name -> prefix of a local environment"
    )
    interval: float = Field(default=60.0, gt=0, description="seconds between decisions when nothing happens")
    max_gpus_per_job: int | None = Field(default=None, ge=1, description="jobs that ask for more are refused")
    bind_numa: bool = Field(
        default=True,
        description="containers whose GPUs are at one NUMA node get its processors and memory: see docs/hosts.md",
    )
    sys_nice: bool = Field(
        default=False,
        description="containers with GPUs have the capability SYS_NICE, so that jobs bind their processes to NUMA "
        "nodes themselves (numactl, NCCL)",
    )
    cpu_jobs: int = Field(default=8, ge=0, le=1000, description="jobs without GPUs that run on one host at a time")
    fair_share: bool = Field(
        default=False, description="share the cluster fairly between users, whatever the policy: see docs/people.md"
    )
    hide_jobs: bool = Field(
        default=False, description="users see only their own jobs, and what belongs to them; admins see all"
    )
    hosts: list[HostSpec] = Field(default_factory=list, description="further hosts, see docs/hosts.md")
    host_grace: float = Field(
        default=60.0, gt=0, description="seconds that a host may be silent before its jobs start elsewhere"
    )
    scale_window: float = Field(
        default=600.0, ge=0, description="seconds for which fewer hosts must do before `desired_hosts` falls"
    )
    scaling_hook: str = Field(
        default="",
        description="command or URL that parks and wakes hosts as `desired_hosts` says, see docs/hosts.md; empty: none",
    )
    mark_parked: bool = Field(
        default=False,
        description="without `scaling_hook`: hosts that are not wanted are marked as parked and get no jobs; nothing "
        "is switched off",
    )
    least_hosts: int = Field(default=1, ge=1, description="so many hosts stay on, at least")
    most_hosts: int | None = Field(default=None, ge=1, description="so many hosts are on, at most; default: all")
    initial_hosts: int | None = Field(
        default=None, ge=1, description="so many hosts are on for `scale_window` after the start; default: all"
    )
    scale_target: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="the number of hosts follows this share of used GPUs, as the Horizontal Pod Autoscaler does it; "
        "default: the policy's wish, or what the jobs need",
    )
    data_sets: dict[str, str] = Field(
        default_factory=dict, description="name -> folder on every host, which jobs may mount read-only by `mounts`"
    )
    writable_data_sets: dict[str, list[str]] = Field(
        default_factory=dict,
        description="name of one of `data_sets` -> users whose jobs may write it; jobs of others can't have it",
    )
    images: list[str] = Field(
        default_factory=list, description="images that every host fetches before a job needs them"
    )
    image_room: Size = Field(
        default=0, description="room for images on each host; those of jobs go, the longest unused first"
    )
    checkpoint_room: Size = Field(
        default=0, description="room for checkpoints on each host; those of ended jobs go, oldest first"
    )
    output_room: Size = Field(
        default=0, description="room for outputs on each host; those of ended jobs go, oldest first; 0: no bound"
    )
    log_room: Size = Field(
        default=50 << 30,
        description="room for logs in the data folder; those of ended jobs go, oldest first; 0: no bound",
    )
    job_log_attempts: int = Field(
        default=50, ge=0, description="attempts of one job whose logs are kept: the first and the last ones; 0: all"
    )
    job_log_room: Size = Field(
        default=1 << 30,
        description="room for the logs of one job: those of its first and last attempt stay, the oldest of the others "
        "go; 0: no bound",
    )
    code_limit: Size = Field(default=MAX_BYTES, description="of the files of one archive of code")
    code_room: Size = Field(
        default=10 << 30,
        description="room for code in the data folder; what unfinished jobs need stays, the longest unused goes; 0: no "
        "bound",
    )
    data_limit: Size = Field(default=DATA_BYTES, description="of the files of one version of a data set")
    data_files: int = Field(default=DATA_FILES, ge=1, le=2_000_000, description="of one version of a data set")
    data_store: Size = Field(
        default=1 << 40, description="room for data sets in the data folder; more is refused, nothing goes; 0: no bound"
    )
    data_per_user: Size = Field(
        default=400 << 30,
        description="of the data sets of one user, each version with all of its files; more is refused; 0: no bound",
    )
    data_room: Size = Field(
        default=0,
        description="room for copies of data sets on each host; the longest unused go, and come again for the next job "
        "that needs them; 0: no bound",
    )
    code_git_hosts: list[str] = Field(
        default_factory=lambda: list(GIT_HOSTS),
        description="servers from which jobs may have code fetched by git; `*` is any, http://HOST one without TLS",
    )
    default_image: ImageName = Field(
        default="schedulearn/pytorch", description="what `schedulearn run` names where its user names no image"
    )
    report_url: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="URL of this service as job containers reach it; default: found by itself on this machine",
    )
    report_interval: float = Field(default=30.0, ge=0.1, le=3600, description="seconds between reports of a job")
    report_grace: float = Field(
        default=180.0,
        gt=0,
        description="seconds without a report, four report_intervals at least, after which a job of the worker SDK is "
        "said to be silent",
    )
    idle_after: float = Field(
        default=1800.0,
        ge=0,
        le=3.2e7,
        description="seconds without output, a reported step or use of its GPUs after which a job is said to hang; "
        "0: never",
    )
    gpus_unused_after: float = Field(
        default=3600.0,
        ge=0,
        le=3.2e7,
        description="seconds without use of its GPUs after which a job is said not to need them; 0: never",
    )
    hang_steps: float = Field(
        default=100.0,
        ge=0,
        le=1e9,
        description="a job whose workers report, but no step for so many times its own step time, and for "
        "`hang_after`, is said to hang; 0: never",
    )
    hang_after: float = Field(
        default=600.0, gt=0, le=3.2e7, description="seconds without a step, at least, before `hang_steps` counts"
    )
    on_hang: OnHang = Field(
        default="warn",
        description="what is done with a job that hangs or does not use its GPUs, unless it has an `on_hang` of "
        "its own: `warn`, `restart` or `end`",
    )
    crash_limit: int = Field(
        default=10,
        ge=0,
        le=1000,
        description="equal exit codes in a row, each soon after the start, after which a job is not tried again, "
        "however many restarts it has left; 0: no limit",
    )
    terminal_keep: float = Field(
        default=600.0,
        ge=0,
        le=86_400,
        description="seconds for which a shell of the page is found again after a reload",
    )
    terminal_idle: float = Field(
        default=3600.0,
        ge=0,
        le=3.2e7,
        description="seconds without input or output after which a terminal in a job is closed; 0: never",
    )
    checkpoint_interval: float = Field(default=300.0, ge=0.1, le=86_400, description="seconds between checkpoints")
    keep_checkpoints: float = Field(
        default=86_400.0, ge=0, description="seconds that a job's checkpoints are kept after its end"
    )
    keep_outputs: float = Field(
        default=30.0, ge=0, le=36_500, description="days that a job's outputs are kept after its end"
    )
    checkpoint_copies: Size = Field(
        default=50 << 30,
        description="room for copies of running jobs' checkpoints in the data folder, from which they go on when their "
        "host is lost; 0: none",
    )
    webhook_networks: list[str] = Field(
        default_factory=list,
        description="networks that are not on the internet and to which webhooks may lead, such as 10.1.0.0/16",
    )
    gpu_prices: dict[str, Annotated[float, Field(ge=0, le=1e6)]] = Field(
        default_factory=dict,
        description="type of GPU -> price of an hour of one; `*`: of all other types. For the cost of usage, runs and "
        "advice",
    )
    currency: str = Field(
        default="", max_length=8, description="of gpu_prices, as it is shown: EUR; empty: none is shown"
    )
    keep_telemetry: float = Field(default=7.0, ge=0, le=3660, description="days that averages of GPUs are kept")

    @model_validator(mode="after")
    def _bounds_of_hosts(self) -> Self:
        self._rule()
        return self

    @property
    def scaling_rule(self) -> ScalingRule | None:
        """None: hosts are not switched off and on."""
        return self._rule() if self.scaling_hook or self.mark_parked else None

    def _rule(self) -> ScalingRule:
        return ScalingRule(self.least_hosts, self.most_hosts, self.initial_hosts, self.scale_target)

    @property
    def shares_database(self) -> bool:
        """Other services may name the same database, and wait until it is their turn."""
        return (self.database_url or "").startswith("postgresql")
