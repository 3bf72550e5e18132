"""What an operator sets of the scheduler. A setting, its type and its default stand here and nowhere else.

`api/settings.py` adds the settings of the API, and reads them all from flags, the environment and a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from schedulearn.scheduler.code.archive import MAX_BYTES
from schedulearn.scheduler.code.git import GIT_HOSTS
from schedulearn.scheduler.core.host_scaling import ScalingRule
from schedulearn.scheduler.core.notices import mail_address
from schedulearn.scheduler.core.outcomes.hangs import OnHang
from schedulearn.scheduler.data.manifest import MAX_BYTES as DATA_BYTES
from schedulearn.scheduler.data.manifest import MAX_FILES as DATA_FILES
from schedulearn.scheduler.specs.cron import ZoneName, local_zone
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import ImageName, parse_size
from schedulearn.scheduler.specs.texts import Pairs

Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
"""Bytes, or e.g. "50g"."""

RuntimeChoice = Literal["auto", "docker", "process"]


class ClusterSettings(BaseModel):
    """Every field is documented in docs/settings.md (a test says so). Times are in seconds, unless they say days."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # the service only makes the subclass

    database_url: str | None = Field(
        default=None,
        pattern=r"^(sqlite:////?[^/]|postgresql://)",
        description="database, instead of DATA/schedulearn.db: postgresql://user@host/name, see docs/operations.md, "
        "or sqlite:////var/lib/other.db",
    )
    runtime: RuntimeChoice = Field(
        default="auto", description="auto: Docker Engine if one answers, otherwise local processes"
    )
    simulate_gpus: int | None = Field(
        default=None, ge=0, le=1024, description="number of simulated GPUs, instead of the real ones"
    )
    environments: dict[str, Path] = Field(
        default_factory=dict, description="process runtime: image name -> prefix of a local environment"
    )
    interval: float = Field(default=60.0, gt=0, description="maximum seconds between scheduling cycles")
    max_gpus_per_job: int | None = Field(
        default=None, ge=1, description="maximum GPUs of one job; jobs with more are rejected"
    )
    bind_numa: bool = Field(
        default=True,
        description="containers whose GPUs share a NUMA node use its processors and memory, see docs/hosts.md",
    )
    sys_nice: bool = Field(
        default=False,
        description="give containers with GPUs the capability SYS_NICE, so that jobs can bind their processes to NUMA "
        "nodes (numactl, NCCL)",
    )
    time_zone: ZoneName | None = Field(
        default=None,
        description="time zone of schedules and of repeated windows that name none, as in Europe/Berlin; default: that "
        "of the service's machine",
    )
    cpu_jobs: int = Field(default=8, ge=0, le=1000, description="maximum running jobs without GPUs per host")
    fair_share: bool = Field(
        default=False, description="share the cluster fairly between users, with any policy, see docs/people.md"
    )
    hide_jobs: bool = Field(default=False, description="users see only their own jobs and related data; admins see all")
    hosts: list[HostSpec] = Field(default_factory=list, description="additional hosts, see docs/hosts.md")
    host_grace: float = Field(
        default=60.0, gt=0, description="seconds without an answer from a host after which its jobs start elsewhere"
    )
    scale_window: float = Field(
        default=600.0,
        ge=0,
        description="scale-down stabilization window, seconds: `desired_hosts` falls only if "
        "fewer hosts were enough for all of it",
    )
    scaling_hook: str = Field(
        default="",
        description="command or URL that powers hosts down and up to match `desired_hosts`, see docs/hosts.md; empty: "
        "none",
    )
    mark_parked: bool = Field(
        default=False,
        description="without `scaling_hook`: mark hosts that are not needed as parked; they get no jobs, but are not "
        "powered down",
    )
    least_hosts: int = Field(default=1, ge=1, description="minimum hosts that are on")
    most_hosts: int | None = Field(default=None, ge=1, description="maximum hosts that are on; default: all")
    initial_hosts: int | None = Field(
        default=None, ge=1, description="hosts that are on for `scale_window` after the start; default: all"
    )
    scale_target: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="target share of used GPUs that the number of hosts follows, as with the Horizontal Pod "
        "Autoscaler; default: the policy or the jobs' needs decide",
    )
    data_sets: dict[str, str] = Field(
        default_factory=dict, description="name -> folder on every host, which jobs may mount read-only with `mounts`"
    )
    writable_data_sets: dict[str, list[str]] = Field(
        default_factory=dict,
        description="name of one of `data_sets` -> users whose jobs may write it; other users' jobs can't mount it",
    )
    images: list[str] = Field(default_factory=list, description="images to fetch on every host in advance")
    image_room: Size = Field(
        default=0, description="image quota per host; jobs' images are deleted, least recently used first; 0: no limit"
    )
    checkpoint_room: Size = Field(
        default=0,
        description="checkpoint quota per host; the oldest checkpoints of finished jobs are deleted first; 0: no limit",
    )
    output_room: Size = Field(
        default=0,
        description="output quota per host; the oldest outputs of finished jobs are deleted first; 0: no limit",
    )
    log_room: Size = Field(
        default=50 << 30,
        description="log quota of the data folder; the oldest logs of finished jobs are deleted first; 0: no limit",
    )
    job_log_attempts: int = Field(
        default=50,
        ge=0,
        description="maximum attempts per job whose logs are kept: the first and the last ones; 0: all",
    )
    job_log_room: Size = Field(
        default=1 << 30,
        description="log quota per job: the oldest logs are deleted, except those of the first and last attempt; 0: "
        "no limit",
    )
    code_limit: Size = Field(default=MAX_BYTES, description="maximum size of the files of a code archive")
    code_room: Size = Field(
        default=10 << 30,
        description="code quota of the data folder; archives that no unfinished job needs are deleted, least recently "
        "used first; 0: no limit",
    )
    data_limit: Size = Field(default=DATA_BYTES, description="maximum size of the files of a version of a data set")
    data_files: int = Field(
        default=DATA_FILES, ge=1, le=2_000_000, description="maximum files of a version of a data set"
    )
    data_store: Size = Field(
        default=1 << 40, description="quota for data sets in the data folder; exceeding it is an error; 0: no limit"
    )
    data_per_user: Size = Field(
        default=400 << 30,
        description="data set quota per user, each version counted with all of its files; exceeding it is an error; "
        "0: no limit",
    )
    data_room: Size = Field(
        default=0,
        description="quota for copies of data sets per host; the least recently used are deleted, and copied again "
        "when a job needs them; 0: no limit",
    )
    code_git_hosts: list[str] = Field(
        default_factory=lambda: list(GIT_HOSTS),
        description="servers from which git may fetch code of jobs; `*`: any, http://HOST: one without TLS",
    )
    default_image: ImageName = Field(
        default="schedulearn/pytorch", description="image of `schedulearn run` without --image"
    )
    report_url: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="URL of this service for job containers; default: determined automatically, for this machine",
    )
    report_interval: float = Field(default=30.0, ge=0.1, le=3600, description="seconds between reports of a job")
    report_grace: float = Field(
        default=180.0,
        gt=0,
        description="seconds without a report after which a job of the worker SDK counts as silent; at least four "
        "times `report_interval`",
    )
    idle_after: float = Field(
        default=1800.0,
        ge=0,
        le=3.2e7,
        description="seconds without output, a reported step or use of its GPUs after which a job counts as hanging; "
        "0: never",
    )
    gpus_unused_after: float = Field(
        default=3600.0,
        ge=0,
        le=3.2e7,
        description="seconds without use of its GPUs after which a job counts as not using them; 0: never",
    )
    hang_steps: float = Field(
        default=100.0,
        ge=0,
        le=1e9,
        description="a job counts as hanging if its workers report, but no step, for `hang_steps` times its step "
        "time and for `hang_after`; 0: never",
    )
    hang_after: float = Field(
        default=600.0, gt=0, le=3.2e7, description="minimum seconds without a step before `hang_steps` applies"
    )
    on_hang: OnHang = Field(
        default="warn",
        description="action for a job that hangs or does not use its GPUs, unless it has its own `on_hang`: `warn`, "
        "`restart` or `end`",
    )
    crash_limit: int = Field(
        default=10,
        ge=0,
        le=1000,
        description="successive failures with the same exit code, each soon after the start, after which a job is not "
        "retried, even with retries left; 0: no limit",
    )
    terminal_keep: float = Field(
        default=600.0,
        ge=0,
        le=86_400,
        description="seconds for which the page reconnects to its shell after a reload",
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
        description="quota in the data folder for copies of running jobs' checkpoints, from which they continue if "
        "their host is lost; 0: none",
    )
    webhook_networks: list[str] = Field(
        default_factory=list,
        description="private networks that webhooks may call, such as 10.1.0.0/16",
    )
    notice_networks: list[str] = Field(
        default_factory=list,
        description="private networks that notices of users may call, such as 10.1.2.3/32",
    )
    smtp_host: str = Field(default="", description="mail server for notices, see docs/notices.md; empty: no e-mail")
    smtp_port: int = Field(default=587, ge=1, le=65535, description="port of `smtp_host`")
    smtp_tls: Literal["starttls", "tls", "off"] = Field(
        default="starttls",
        description="encryption to `smtp_host`: starttls, tls from the start (port 465), or off; with off, no password "
        "is sent, except to loopback",
    )
    smtp_from: str = Field(default="", max_length=254, description="sender of e-mail; needed with `smtp_host`")
    smtp_user: str = Field(default="", max_length=254, description="user at `smtp_host`; empty: no login")
    smtp_password: SecretStr = Field(
        default=SecretStr(""), description="password of `smtp_user`; SCHEDULEARN_SMTP_PASSWORD keeps it out of files"
    )
    smtp_password_file: Path | None = Field(
        default=None, description="file with the password of `smtp_user`, instead of `smtp_password`"
    )
    smtp_domains: list[str] = Field(
        default_factory=list, description="domains to which notices by e-mail may go, such as lab.org; default: all"
    )
    job_env: Pairs = Field(
        default_factory=dict,
        max_length=100,
        description="environment variables of all jobs, such as WANDB_BASE_URL; those of a job win. Values that must "
        "stay secret belong in shared secrets",
    )
    gpu_prices: dict[str, Annotated[float, Field(ge=0, le=1e6)]] = Field(
        default_factory=dict,
        description="GPU type -> price of a GPU-hour; `*`: all other types. For the cost of usage, runs and advice",
    )
    currency: str = Field(default="", max_length=8, description="currency of gpu_prices, such as EUR; empty: not shown")
    keep_events: float = Field(
        default=365.0,
        ge=0,
        le=36_500,
        description="days that events are kept, those of unfinished jobs longer; 0: always",
    )
    keep_jobs: float = Field(
        default=0.0,
        ge=0,
        le=36_500,
        description="days after which ended jobs are deleted, but not before their outputs, and not runs of sweeps; "
        "0: never",
    )
    keep_notices: float = Field(
        default=30.0, ge=1, le=36_500, description="days that delivered and failed notices are shown"
    )
    keep_telemetry: float = Field(default=7.0, ge=0, le=3660, description="days that averages of GPUs are kept")

    @model_validator(mode="after")
    def _bounds_of_hosts(self) -> Self:
        self._rule()
        return self

    @model_validator(mode="after")
    def _mail_is_complete(self) -> Self:
        if not self.smtp_host:
            return self
        if mail_address(self.smtp_from) is None:
            raise ValueError("smtp_host needs smtp_from: set smtp_from to the sender, such as schedulearn@lab.org")
        if self.smtp_user and self.smtp_tls == "off" and self.smtp_host not in ("127.0.0.1", "localhost", "::1"):
            raise ValueError("smtp_tls is off, and smtp_user needs a login: set smtp_tls to starttls or tls")
        return self

    def mail_refusal(self, address: str) -> str:
        """Return why no notice can go to an e-mail address; empty: it can."""
        if not self.smtp_host:
            return "this service sends no e-mail: an operator may set smtp_host (docs/notices.md)"
        if self.smtp_domains and address.rpartition("@")[2] not in map(str.lower, self.smtp_domains):
            return f"this service sends e-mail only to {', '.join(self.smtp_domains)} (setting smtp_domains)"
        return ""

    @property
    def zone(self) -> str:
        """Time zone of what names none."""
        return self.time_zone or local_zone()

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
