"""Specification of a job: five required keys, all others optional.

Jobs are validated only here, for the API, the command line and batch files.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticUndefined

from schedulearn.scheduler.core.cluster_state import HostConstraints
from schedulearn.scheduler.core.command import names_launcher, reserved_env, split_command
from schedulearn.scheduler.core.instants import Instant
from schedulearn.scheduler.core.job_image import layer_of
from schedulearn.scheduler.core.model import PRIORITY, Metric
from schedulearn.scheduler.core.notices import MAX_RECIPIENTS
from schedulearn.scheduler.core.outcomes.hangs import OnHang
from schedulearn.scheduler.core.planning.job_family import MAX, family_of
from schedulearn.scheduler.core.planning.limits import check_target, nested_target, usual_shm
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.data.manifest import check_name, kept_path, split_reference
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.code import Code
from schedulearn.scheduler.specs.notify import NoticeEvents, Recipients
from schedulearn.scheduler.specs.ports import Ports
from schedulearn.scheduler.specs.requirements import Requirements
from schedulearn.scheduler.specs.start_after import StartAfter
from schedulearn.scheduler.specs.texts import Pairs, Text, plain
from schedulearn.scheduler.specs.where import GpuTypes, HostTerms

MAX_GPUS = 4096
MAX_SPEC = 1 << 20  # bytes of all text of a job; Linux starts no program with twice as much
MAX_BATCH = (1 << 31) - 1  # of an integer column
GRACE_S = 10.0
ELASTIC_GRACE_S = 60.0
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LONGEST_SIZE = 40  # characters; a float can't hold a longer size
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_MAX_METRICS = 20
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_size(value: object) -> object:
    """Return the bytes of `"512m"`, `"1g"`, `"1.5 GiB"` or a plain number (powers of 1024, as in Docker)."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value) if len(value) <= _LONGEST_SIZE else None
        if match is None:
            raise ValueError('must be a size such as "512m", "1g" or a number of bytes')
        return int(float(match[1]) * _UNITS[match[2].lower()])
    return value


def _as_number(value: object) -> object:
    """Convert a whole number that a shell's HTTP client sent as text, as in `required_gpus=4`."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value) else value


def _as_targets(value: Any) -> Any:
    """Convert a list of data sets to a mapping that puts each below /data."""
    if isinstance(value, list):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("must be a list of the names of data sets, or name -> path in the container")
        return {name: f"/data/{name}" for name in value}
    return value


def _as_data_targets(value: Any) -> Any:
    """Convert a list of data sets to a mapping that puts each below /data, by its name without a version."""
    if isinstance(value, list):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("must be a list of NAME or NAME@VERSION, or that -> path in the container")
        return {name: f"/data/{name.partition('@')[0]}" for name in value}
    return value


def _as_after(value: Any) -> Any:
    """Convert a list of jobs to the condition that each must succeed."""
    return {"jobs": value} if isinstance(value, list) else value


class AfterSpec(BaseModel):
    """Jobs that end before this one starts."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[Annotated[Text, Field(min_length=1, max_length=64)]] = Field(
        min_length=1, max_length=100, description="IDs of existing jobs"
    )
    when: Literal["ok", "any"] = Field(
        default="ok",
        description="ok: start after all have succeeded, cancel this job if one does not; any: start after all have "
        "ended",
    )


ImageName = Annotated[
    str,
    Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-/:@]*$"),  # in schemas only if first
    AfterValidator(plain),
]


def _as_log_metrics(value: Any) -> Any:
    """Raise one error for a value that is neither kind, in place of one for each kind."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_METRICS:
        raise ValueError(f"must be true, false, or a list of 1 to {_MAX_METRICS} names of metrics")
    for name in value:
        if not isinstance(name, str) or not 1 <= len(name) <= 64 or "\0" in name:
            raise ValueError(f"{name!r:.80} is not the name of a metric: it has 1 to 64 characters")
    return value


MetricNames = Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(min_length=1, max_length=20)]
"""Names of metrics in a log, in upper or lower case."""


class JobFields(BaseModel):
    """All keys of a job, for the request body of `POST /jobs` and for responses.

    A new key is added here. It needs a column in `store.models.Job` only if the system changes or queries it.
    """

    name: Text = Field(min_length=1, max_length=200, description="display name; need not be unique")
    type: Text = Field(min_length=1, max_length=64, description="framework, e.g. Pytorch; for display and filters")
    description: Text | None = Field(
        default=None, min_length=1, max_length=1000, description="purpose of the job, for display"
    )
    container_image: ImageName = Field(description="e.g. schedulearn/pytorch")
    pull: Literal["missing", "always"] = Field(
        default="missing",
        description="always: pull the image again on each host where the job starts, in case its tag was moved; "
        "missing: use an existing image",
    )
    command: Text = Field(
        min_length=1,
        max_length=65536,
        description="command, run by the launcher; split into words, not interpreted by a shell",
    )
    required_gpus: Annotated[int, BeforeValidator(_as_number)] = Field(
        ge=0,
        le=MAX_GPUS,
        description="number of GPUs; elastic jobs start with it. 0: a job without GPUs, which runs beside others and "
        "without a launcher",
    )

    gpu_type: GpuTypes | None = Field(
        default=None,
        description="types that its GPUs may have, in full or by words of them: a100, or a list such as [a100, h100]",
    )
    gpu_memory_min: Annotated[int | None, BeforeValidator(parse_size)] = Field(
        default=None,
        ge=1 << 20,
        le=1 << 42,
        description='minimum memory of each GPU in bytes, or e.g. "24g". The nominal size counts: up to 8 % may be '
        "taken by ECC and the driver",
    )
    hosts: HostTerms = Field(
        default_factory=list,
        description="hosts where it may run: names, and labels such as {room: b2} or room=b2. A host must have one of "
        "the names, and one value of each label",
    )
    exclude_hosts: HostTerms = Field(
        default_factory=list, description="hosts where it does not run, by names and labels as in `hosts`"
    )
    exclusive: bool = Field(
        default=False,
        description="rigid jobs only: it starts only on hosts where no other job runs, and no other job starts there "
        "while it runs",
    )
    elastic: bool = Field(
        default=False, description="the script can be stopped and resumed with another number of GPUs"
    )
    resize: Literal["restart", "in-place"] = Field(
        default="restart",
        description="elastic jobs only. restart: resize by checkpoint and restart; in-place: resize during training, "
        "with Horovod and the worker SDK for PyTorch, one container per GPU",
    )
    min_gpus: int | None = Field(
        default=None, ge=0, le=MAX_GPUS, description="elastic jobs only: minimum GPUs; default: 1"
    )
    max_gpus: int | None = Field(
        default=None, ge=0, le=MAX_GPUS, description="elastic jobs only: maximum GPUs; default: no limit"
    )
    preemptible: bool = Field(
        default=False,
        description="rigid jobs only: jobs of higher priority may stop it under the policies `priority` and `goodput`; "
        "it starts again from the beginning, or from what its script saved. Elastic jobs always may be stopped",
    )
    priority: int = Field(default=PRIORITY, ge=0, le=100, description="priority; higher first")
    weight: float = Field(default=1.0, gt=0, le=1e6, description="share of the cluster relative to other jobs")
    metric: Metric | None = Field(
        default=None,
        description="objective of the policy `goodput` for this job: `speed` for a short response time, `cost` for "
        "few GPU-hours, `default` for a fair share; default: the policy's",
    )
    deadline: Instant | None = Field(
        default=None,
        description="time by which the job should end, for deadline policies; from 1970 to 2200, UTC without a zone. "
        "A time in the past is accepted with a warning in the job's message",
    )
    start_after: StartAfter | None = Field(
        default=None,
        description="earliest start: a time with its zone, as in 2026-12-24T18:00+01:00, or a delay from the "
        'submission, as in "2h"',
    )
    hold: bool = Field(default=False, description="submit the job held: it does not start before it is released")
    max_duration: float | None = Field(
        default=None, gt=0, le=3.2e8, description="maximum seconds of running; the job is then ended"
    )
    max_restarts: int = Field(default=0, ge=0, le=1000, description="maximum retries after failures of the command")
    on_hang: OnHang | None = Field(
        default=None,
        description="action if it seems to hang or does not use its GPUs. warn: report it; restart: start it again, "
        "at most 3 times; end: end it; default: the service's setting",
    )
    launcher: Literal["horovod", "torchrun", "none"] = "horovod"
    grace_period: float | None = Field(
        default=None, ge=1, le=3600, description="seconds between SIGTERM and SIGKILL, for a checkpoint; default: 10, "
        "elastic 60",
    )  # fmt: skip
    batch_size: int | None = Field(
        default=None, ge=1, le=MAX_BATCH, description="batch size of all workers together, instead of the script's"
    )
    max_batch_size: int | None = Field(
        default=None, ge=1, le=MAX_BATCH, description="maximum batch size, if the script lets the batch adapt"
    )
    epochs: int | None = Field(default=None, ge=1, le=10**6, description="number of epochs, instead of the script's")
    env: Pairs = Field(default_factory=dict, max_length=1000, description="environment variables, at most 128 KiB")
    secrets: Pairs = Field(
        default_factory=dict, max_length=100, description="environment variable -> name of the secret with its value"
    )
    shm_size: Annotated[int, BeforeValidator(parse_size)] = Field(
        default=GIB,
        ge=1 << 16,
        le=1 << 42,
        description='shared memory in bytes, or e.g. "8g"; default: 4 GiB per GPU, 1 GiB without GPUs',
    )
    cpus: float | None = Field(
        default=None, ge=0.01, le=4096, description="maximum processors; default: no limit, and CPU shares by its GPUs"
    )
    memory: Annotated[int | None, BeforeValidator(parse_size)] = Field(
        default=None,
        ge=1 << 23,
        le=1 << 50,
        description='maximum memory in bytes, or e.g. "64g"; default: its share of the host by GPUs',
    )
    gpu_memory: Annotated[int | None, BeforeValidator(parse_size)] = Field(
        default=None,
        ge=1 << 20,
        le=1 << 42,
        description='maximum memory of each GPU in bytes, or e.g. "20g": jobs share a GPU only if it has enough for '
        "all; default: as used by its family before",
    )
    mounts: Annotated[Pairs, BeforeValidator(_as_targets)] = Field(
        default_factory=dict,
        max_length=100,
        description="read-only folders that the operator declared: a list of names, mounted below /data, or name -> "
        "path in the container",
    )
    data: Annotated[Pairs, BeforeValidator(_as_data_targets)] = Field(
        default_factory=dict,
        max_length=100,
        description="read-only data sets and models: a list of `NAME` or `NAME@3`, mounted below /data, or reference "
        "-> path in the container. A name alone means the newest version at submission",
    )
    keep: Pairs = Field(
        default_factory=dict,
        max_length=20,
        description="data sets or models to create when the job succeeds: name -> file or folder below /outputs",
    )
    code: Code | None = Field(
        default=None,
        description="code of the job, unpacked as the working directory: the digest returned by POST /code, or a git "
        "repository and a ref",
    )
    requirements: Requirements | None = Field(
        default=None,
        description="Python packages to install: a list as for pip, or the name of a file in the code. They are "
        "installed once, and shared by all jobs with the same list",
    )
    setup: Text | None = Field(
        default=None,
        min_length=1,
        max_length=65536,
        description="command that runs once per container, before the launcher; split into words like `command`",
    )
    after: Annotated[AfterSpec | None, BeforeValidator(_as_after)] = Field(
        default=None,
        description="jobs that must end before this job starts; a list of IDs means that each must succeed",
    )
    ports: Ports = Field(
        default_factory=dict,
        max_length=10,
        description="name -> port on which the job listens, e.g. notebook: 8888. The job's user and admins can open "
        "it at an address of the service",
    )
    idle_timeout: float | None = Field(
        default=None,
        ge=1,
        le=3.2e7,
        description="seconds without a connection to its ports after which the job is ended; default: never",
    )
    log_metrics: Annotated[bool | MetricNames, BeforeValidator(_as_log_metrics)] = Field(
        default=True,
        description="whether the service reads metrics and progress from the job's log. A list names the metrics to "
        "read instead of the usual ones; false: none. Reports of the worker SDK take precedence",
    )
    labels: Pairs = Field(default_factory=dict, max_length=100, description="key-value pairs, for filters and reports")
    notify: Recipients = Field(
        default_factory=list,
        max_length=MAX_RECIPIENTS,
        description="recipients of notices about the job: `me` for all addresses of your account, the name of one of "
        "them, or an e-mail address. Shown only to those who may change the job",
    )
    notify_on: NoticeEvents | None = Field(
        default=None,
        min_length=1,
        max_length=5,
        description="events for `notify`: end, failure, hang, start, preemption; default: those of each address, and "
        "end and hang for e-mail addresses",
    )
    user: Text = Field(
        default="",
        max_length=100,
        description="owner of the job; default: the sender. Only admins may name another user",
    )
    family: Text | None = Field(
        default=None,
        max_length=MAX,
        description="jobs of a family share predictions of speed and run time; default: the image, and the command "
        "without the values of its arguments",
    )


class JobSpec(JobFields):
    """Job of `POST /jobs`.

    `name, type, container_image, command, required_gpus` are the original five keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, str_strip_whitespace=True, strict=True)

    @property
    def layer(self) -> str:
        return layer_of(self.requirements) if isinstance(self.requirements, list) else ""

    @property
    def inputs(self) -> dict[str, str]:
        """Shared data on the hosts, which is not known before the job is stored."""
        return {}

    @property
    def host_constraints(self) -> HostConstraints | None:
        found: HostConstraints = {}
        if self.hosts:
            found["hosts"] = self.hosts
        if self.exclude_hosts:
            found["exclude_hosts"] = self.exclude_hosts
        if self.gpu_memory_min is not None:
            found["gpu_memory_min"] = self.gpu_memory_min
        if self.exclusive:
            found["exclusive"] = True
        return found or None

    @field_validator("command", "setup")
    @classmethod
    def _splits(cls, command: str | None) -> str | None:
        try:
            if command is not None:
                split_command(command)
        except InvalidError as error:
            raise ValueError(error.detail) from error
        return command

    @field_validator("env", "secrets")
    @classmethod
    def _allowed(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _ENV_NAME.fullmatch(name):
                raise ValueError(
                    f"invalid name {name!r} of an environment variable: use letters, digits and '_', not "
                    "beginning with a digit"
                )
        if reserved := reserved_env(env):
            raise ValueError(f"{', '.join(reserved)} can't be set by a job: the scheduler sets them")
        return env

    @field_validator("mounts")
    @classmethod
    def _targets(cls, mounts: dict[str, str]) -> dict[str, str]:
        found = {name: check_target(target) for name, target in mounts.items()}
        if len(set(found.values())) < len(found):
            raise ValueError("two data sets have the same path: choose different ones")
        return found

    @field_validator("data")
    @classmethod
    def _data_targets(cls, data: dict[str, str]) -> dict[str, str]:
        try:
            for reference in data:
                split_reference(reference)
        except InvalidError as error:
            raise ValueError(error.detail) from error
        return {reference: check_target(target) for reference, target in data.items()}

    @field_validator("keep")
    @classmethod
    def _kept(cls, keep: dict[str, str]) -> dict[str, str]:
        try:
            return {check_name(name): kept_path(path) for name, path in keep.items()}
        except InvalidError as error:
            raise ValueError(error.detail) from error

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if _size(self) > MAX_SPEC:
            raise ValueError(f"the job is larger than {MAX_SPEC >> 20} MiB: shorten env, labels or the command")
        self._check_targets()
        if both := self.env.keys() & self.secrets.keys():
            raise ValueError(f"{min(both)} is in both env and secrets: remove one of them")
        if not self.required_gpus or 0 in (self.min_gpus, self.max_gpus):
            self._check_cpu_only()
        if not self.elastic:
            for bound in ("min_gpus", "max_gpus"):
                if getattr(self, bound) not in (None, self.required_gpus):
                    raise ValueError(f"{bound} differs from required_gpus: set elastic, or leave {bound} out")
            self.min_gpus = self.max_gpus = self.required_gpus
        if self.resize == "in-place":
            self._check_in_place()
        if isinstance(self.requirements, str) and self.code is None:
            raise ValueError(
                f"requirements names the file {self.requirements[:80]!r}, but the job has no code: set code"
            )
        if self.batch_size and self.max_batch_size and self.max_batch_size < self.batch_size:
            raise ValueError(f"max_batch_size ({self.max_batch_size}) is less than batch_size ({self.batch_size})")
        self.family = self.family or family_of(self.container_image, self.command)
        self.grace_period = self.grace_period or (ELASTIC_GRACE_S if self.elastic else GRACE_S)
        if self.elastic:
            self.min_gpus, self.max_gpus = least, most = self.min_gpus or 1, self.max_gpus or MAX_GPUS
            if not least <= self.required_gpus <= most:
                raise ValueError(
                    f"required_gpus ({self.required_gpus}) must lie between min_gpus ({least}) and max_gpus ({most})"
                )
        return self

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if not self.required_gpus:
            for key in ("gpu_type", "gpu_memory_min", "exclusive"):
                if getattr(self, key):
                    raise ValueError(f"{key} needs a job with GPUs: leave out {key}, or set required_gpus to 1 or more")
        if self.exclusive and self.elastic:
            raise ValueError("exclusive needs a rigid job: leave out exclusive, or set elastic to false")
        if self.idle_timeout is not None and not self.ports:
            raise ValueError("idle_timeout needs ports: without ports the job has no connections")
        if "shm_size" not in self.model_fields_set:
            self.shm_size = usual_shm(self.required_gpus)
        return self

    def _check_targets(self) -> None:
        nested = nested_target([*self.mounts.values(), *self.data.values()]) if self.data else None
        if nested is not None:
            raise ValueError(f"{nested} has two data sets, or one inside another: choose another folder")

    def _check_in_place(self) -> None:
        if not self.elastic:
            raise ValueError("resize: in-place needs an elastic job: set elastic")
        if self.launcher != "horovod" or names_launcher(self.command):
            raise ValueError("resize: in-place needs launcher: horovod, and a command without a launcher")

    def _check_cpu_only(self) -> None:
        if self.elastic:
            raise ValueError("an elastic job needs GPUs: required_gpus, min_gpus and max_gpus must be at least 1")
        if not self.required_gpus:
            if "launcher" in self.model_fields_set and self.launcher != "none":
                raise ValueError(
                    f"launcher: {self.launcher} starts one worker per GPU, but required_gpus is 0: leave launcher out"
                )
            self.launcher = "none"


def without_bounds(shown: type[JobFields]) -> None:
    """Make the inherited fields of a class required, without constraints.

    Stored jobs are shown as they are, even with values that requests may no longer have.
    """
    for name, field in shown.model_fields.items():
        if name not in shown.__annotations__:
            field.metadata = []
            field.default, field.default_factory = PydanticUndefined, None
    shown.model_rebuild(force=True)


def _size(spec: JobSpec) -> int:
    """Return the bytes of the job's text, or 0 if it can't exceed MAX_SPEC even with 4 bytes per character."""
    texts = [spec.command, spec.setup or ""]
    for pairs in (spec.env, spec.secrets, spec.labels, spec.mounts, spec.data, spec.keep):
        texts += [*pairs, *pairs.values()]
    if sum(map(len, texts)) <= MAX_SPEC // 4:
        return 0
    return sum(len(text.encode()) for text in texts)


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = 1_767_225_600  # 2026-01-01 UTC
_last = -1
_lock = threading.Lock()


def new_job_id() -> str:
    """Return an id of ten characters that sorts by time of creation.

    Six characters are the second. Four start at random and count up. Plain numbers are not used: containers of an older
    database on the same engine must never be mistaken for those of this one.
    """
    global _last
    with _lock:
        second = int(time.time()) - _EPOCH
        # Random only once a second: the system call yields the processor to other threads, which takes time.
        _last = second << 20 | secrets.randbelow(1 << 19) if second > _last >> 20 else _last + 1
        value = _last
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(45, -1, -5))
