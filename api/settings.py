"""Settings: one YAML file, each key also by environment (`SCHEDULEARN_...`) and flag; flags win, then that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import parse_size

LOOPBACK = ("127.0.0.1", "localhost", "::1")


Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
"""Bytes, or e.g. "50g"."""


class Settings(BaseSettings):
    """Every field is documented in docs/settings.md (a test says so)."""

    model_config = SettingsConfigDict(env_prefix="SCHEDULEARN_", extra="forbid", env_nested_delimiter="__")

    host: str = Field(default="127.0.0.1", description="address to listen on; any but loopback needs a token")
    port: int = Field(default=8000, ge=0, le=65535, description="0: any free port, which is printed")
    data: Path = Field(default=Path("."), description="folder of schedulearn.db, logs and local tasks")
    database_url: str | None = Field(default=None, description="another database than DATA/schedulearn.db")
    runtime: Literal["auto", "docker", "process"] = Field(
        default="auto", description="auto: Docker Engine where one answers, else local processes"
    )
    simulate_gpus: int | None = Field(
        default=None, ge=0, le=1024, description="so many pretended GPUs instead of what NVML shows"
    )
    token: str | None = Field(default=None, min_length=8, description="asked of every client; sent as Bearer")
    interval: float = Field(default=60.0, gt=0, description="seconds between decisions when nothing happens")
    max_gpus_per_job: int | None = Field(default=None, ge=1, description="jobs that ask for more are refused")
    policies: list[str] = Field(default_factory=list, description="own policies, as path/to/file.py:ClassName")
    hosts: list[HostSpec] = Field(default_factory=list, description="further hosts, see docs/hosts.md")
    scale_window: float = Field(
        default=600.0, ge=0, description="seconds for which fewer hosts must do before `desired_hosts` falls"
    )
    scaling_hook: str = Field(
        default="",
        description="command or URL that parks and wakes hosts as `desired_hosts` says, see docs/hosts.md; empty: none",
    )
    host_grace: float = Field(
        default=60.0, gt=0, description="seconds that a host may be silent before its jobs start elsewhere"
    )
    data_sets: dict[str, str] = Field(
        default_factory=dict, description="name -> folder on every host, which jobs may mount read-only by `mounts`"
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
    log_room: Size = Field(
        default=0, description="room for logs in the data folder; those of ended jobs go, oldest first; 0: no bound"
    )
    job_log_attempts: int = Field(
        default=50, ge=0, description="attempts of one job whose logs are kept: the first and the last ones; 0: all"
    )
    job_log_room: Size = Field(
        default=1 << 30,
        description="room for the logs of one job: those of its first and last attempt stay, the oldest of the others "
        "go; 0: no bound",
    )
    environments: dict[str, Path] = Field(
        default_factory=dict, description="process runtime: image name -> prefix of a local environment"
    )

    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+",
        description="URL by which people open the service, for the lines that it begins with",
    )
    token_command: str = Field(
        default="", description="command that shows the generated token, for the same lines; empty: cat DATA/token"
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
    checkpoint_interval: float = Field(default=300.0, ge=0.1, le=86_400, description="seconds between checkpoints")
    keep_checkpoints: float = Field(
        default=86_400.0, ge=0, description="seconds that a job's checkpoints are kept after its end"
    )
    checkpoint_copies: Size = Field(
        default=50 << 30,
        description="room for copies of running jobs' checkpoints in the data folder, from which they go on when their "
        "host is lost; 0: none",
    )
    keep_telemetry: float = Field(default=7.0, ge=0, le=3660, description="days that averages of GPUs are kept")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    @model_validator(mode="after")
    def _absolute(self) -> Self:
        try:
            self.data = self.data.expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"data: {error}") from error
        return self

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK


def load_settings(file: Path | None = None, **flags: Any) -> Settings:
    """Flags that are None count as not given. Raises InvalidError naming the key and where it came from."""
    given = {key: value for key, value in flags.items() if value is not None}
    from_file: dict[str, Any] = {}
    if file is not None:
        import yaml  # only for those who have a file: it is not free at start

        try:
            loaded = yaml.safe_load(file.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise InvalidError(f"the settings file {file} can't be read: {error}") from error
        if loaded is not None and not isinstance(loaded, dict):
            raise InvalidError(f"the settings file {file} must hold keys and values")
        from_file = loaded or {}
    try:
        environment = Settings().model_dump(exclude_unset=True)
        return Settings(**{**from_file, **environment, **given})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidError(f"setting {key!r}: {first['msg']}", field=key) from error
