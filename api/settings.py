"""Settings of the service.

They come from flags, environment variables (SCHEDULEARN_...) and a YAML file, in this order of precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from schedulearn.api.access.sign_in import SignInSettings
from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.settings import ClusterSettings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_LENGTH = 8
"""Minimum characters of the service's token."""
WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound

_PREFIX = "SCHEDULEARN_"


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


class Settings(ClusterSettings, SignInSettings, BaseSettings):
    """Settings of the scheduler and of the API. A test checks that docs/settings.md documents each field."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid", frozen=True, env_nested_delimiter="__")

    host: str = Field(default="127.0.0.1", description="address to listen on; all except loopback need a token")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0: any free port, which is printed")
    data: Annotated[Path, AfterValidator(_absolute)] = Field(
        default=Path("."), description="folder of schedulearn.db, logs and local tasks"
    )
    token: str | None = Field(
        default=None, min_length=TOKEN_LENGTH, description="token that every client must send, as Bearer"
    )
    tls: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: TLS with `tls_cert`, otherwise with a certificate that the service creates, except on "
        "loopback, behind a proxy, or if `public_url` begins with http:",
    )
    tls_cert: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        default=None, description="file with the certificate of the service, and intermediate certificates"
    )
    tls_key: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        default=None, description="file with the key of `tls_cert`, if that does not contain it"
    )
    policies: list[str] = Field(default_factory=list, description="your own policies, as path/to/file.py:ClassName")
    behind_proxy: bool = Field(
        default=False, description="the service is behind a proxy; if false, forwarded requests are rejected"
    )
    page_origins: list[Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+$")]] = Field(
        default_factory=list,
        description="origins of other pages that may use the service from a browser, e.g. http://localhost:3000; they "
        "need a token and can't use the page's session",
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+",
        description="URL at which users open the service, for the lines printed at the start",
    )
    ports_domain: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
        description="domain below which each port of a job has its own name, for a service that is not on loopback; "
        "all names below it must resolve to the service",
    )
    token_command: str = Field(
        default="",
        description="command that shows the generated token, for the lines printed at the start; empty: cat DATA/token",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # `load_settings` reads the others, to tell which one a wrong value came from

    @model_validator(mode="after")
    def _sign_in_is_complete(self) -> Self:
        self.check_sign_in(self.public_url, behind_proxy=self.behind_proxy)
        return self

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def everywhere(self) -> bool:
        """Whether the service listens on all addresses of the machine."""
        return self.host in WILDCARDS

    @property
    def public_url_has_tls(self) -> bool:
        return (self.public_url or "").startswith("https:")

    @property
    def is_opened_by_tls(self) -> bool:
        """Whether clients connect by TLS, to the service or to a proxy."""
        return self.has_tls or self.public_url_has_tls

    @property
    def has_tls(self) -> bool:
        """Whether the service itself speaks TLS."""
        if self.tls == "off":
            return False
        is_plain_outside = self.behind_proxy or (self.public_url or "").startswith("http:")
        return self.tls_cert is not None or not (self.loopback or is_plain_outside)


def load_settings(file: Path | None = None, **flags: object) -> Settings:
    """Load the settings. A flag that is None counts as not given.

    Raises InvalidError that names the key and its source."""
    from_file = _read_file(file) if file is not None else {}
    from_environment = _Environment(Settings)()
    from_flags = {key: value for key, value in flags.items() if value is not None}
    given = {**from_file, **from_environment, **from_flags}
    try:
        return Settings(**given)
    except ValidationError as error:
        fault = first_fault(error, Settings)
        if not fault.place:  # several settings do not go together, and the message names them
            raise InvalidError(f"settings: {fault.message}") from error
        name = str(fault.place[0])
        if name in from_flags:
            place = f"flag --{name.replace('_', '-')}"
        elif name in from_environment:
            place = f"environment variable {_PREFIX}{name.upper()}"
        else:
            place = f"settings file {file}"
        raise InvalidError(f"setting {fault.field!r} ({place}): {fault.message}", field=fault.field) from error


class _Environment(EnvSettingsSource):
    """Source of environment variables whose error names the variable."""

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        try:
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        except ValueError as error:
            raise InvalidError(
                f"setting {field_name!r} (environment variable {_PREFIX}{field_name.upper()}): lists and maps must be "
                f"JSON: {error}",
                field=field_name,
            ) from error


def _read_file(file: Path) -> Mapping[str, Any]:
    """Read a settings file. Raises InvalidError.

    The source of pydantic-settings is not used: it takes a missing file for an empty one, and fails without a reason
    if the file holds a list."""
    import yaml  # slow to import, and few have a file

    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidError(f"the settings file {file} can't be read: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InvalidError(f"the settings file {file} must contain keys and values")
    return {str(key): value for key, value in loaded.items()}
