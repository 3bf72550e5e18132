"""Template of a job file.

It has the given keys, then all other keys as comments.
"""

from __future__ import annotations

import textwrap

from pydantic.fields import FieldInfo

from schedulearn.api.cli.job_files.writing import as_yaml, scalar
from schedulearn.api.client.client import Json
from schedulearn.scheduler.core.planning.limits import usual_shm
from schedulearn.scheduler.specs.job import JobFields

_WIDTH = 100


def commented(job: Json) -> str:
    """Return `job` as YAML with every key of a job, each with its description."""
    lines = ["# A job for Schedulearn. `schedulearn submit` takes this file; docs/jobs.md tells more of each key."]
    rest = {key: value for key, value in job.items() if key in JobFields.model_fields}
    for key, about in JobFields.model_fields.items():
        if key in rest:
            lines += ["", *_described(about), as_yaml({key: rest[key]}).rstrip("\n")]
    lines += ["", "# Every other key, with its default:"]
    for key, about in JobFields.model_fields.items():
        if key not in rest:
            lines += ["", *_described(about), f"# {key}: {scalar(_default(key, about, job))}"]
    return "\n".join(lines) + "\n"


def _default(key: str, about: FieldInfo, job: Json) -> object:
    gpus = job.get("required_gpus")
    if key == "shm_size" and isinstance(gpus, int):
        return usual_shm(gpus)
    found: object = about.get_default(call_default_factory=True)
    return found


def _described(field: FieldInfo) -> list[str]:
    text = field.description or ""
    return [f"# {line}" for line in textwrap.wrap(text[:1].upper() + text[1:], _WIDTH)] if text else []
