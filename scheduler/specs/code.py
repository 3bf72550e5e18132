"""Key `code` of a job: uploaded archive, or commit to fetch."""

from __future__ import annotations

from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schedulearn.scheduler.code.archive import DIGEST
from schedulearn.scheduler.code.git import REF
from schedulearn.scheduler.specs.texts import Text


def _git_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be like https://github.com/owner/name.git")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must not have a user, password, ? or #: it is stored and shown with the job")
    return url


class CodeSpec(BaseModel):
    """Code of a job, as its user gives it.

    If there is a digest, the other keys only describe the origin of the code. Therefore a job that is shown can be
    submitted again with exactly the same code."""

    model_config = ConfigDict(extra="forbid")

    digest: str | None = Field(
        default=None, pattern=f"^{DIGEST}$", description="digest of the archive, as returned by POST /code"
    )
    git: Annotated[Text, AfterValidator(_git_url)] | None = Field(
        default=None,
        max_length=1000,
        description="repository of the code, if no digest is given",
    )
    ref: Annotated[str, Field(max_length=200, pattern=f"^{REF}$")] | None = Field(
        default=None, description="branch, tag or full commit ID; default: HEAD"
    )
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$", description="commit of the code")
    dirty: bool | None = Field(default=None, description="whether the code was changed since that commit")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.digest is None and self.git is None:
            raise ValueError("must have `digest` or `git`")
        if self.digest is None and (self.commit is not None or self.dirty is not None):
            raise ValueError("commit and dirty need a digest; with `git`, choose the commit with ref")
        return self


_Digest = Annotated[str, Field(pattern=f"^{DIGEST}$")]


def _as_code(value: Any) -> Any:
    """Convert a plain digest to a reference to the archive."""
    return {"digest": value} if isinstance(value, str) else value


Code = Annotated[CodeSpec, BeforeValidator(_as_code, json_schema_input_type=_Digest | CodeSpec)]
