"""Template of a job file.

It has the given keys, then all other keys as comments.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from schedulearn.api.cli.job_files.writing import as_yaml, scalar
from schedulearn.api.client.client import Json
from schedulearn.scheduler.core.planning.limits import usual_shm

_WIDTH = 100


@dataclass(frozen=True)
class Key:
    """Key of a job, as a job file explains it."""

    description: str
    default: object


def own_keys() -> dict[str, Key]:
    """Return all keys of this version. Raises ModuleNotFoundError on a laptop, which has no pydantic."""
    from schedulearn.scheduler.specs.job import JobFields

    fields = JobFields.model_fields.items()
    return {name: Key(about.description or "", about.get_default(call_default_factory=True)) for name, about in fields}


def keys_of(document: Json) -> dict[str, Key]:
    """Return all keys of the service that has this OpenAPI document.

    It states no default for empty objects and lists: the first of both that a key takes is its own form."""
    properties = document["components"]["schemas"]["JobSpec"]["properties"]

    def default(key: Json) -> object:
        kinds = [kind.get("type") for kind in (key, *key.get("anyOf", ()))]
        is_list = next((kind for kind in kinds if kind in ("array", "object")), "object") == "array"
        return key.get("default", [] if is_list else {})

    return {name: Key(str(each.get("description", "")), default(each)) for name, each in properties.items()}


def commented(job: Json, keys: Mapping[str, Key]) -> str:
    """Return `job` as YAML with every key of a job, each with its description."""
    lines = ["# A job for Schedulearn. `schedulearn submit` takes this file; docs/jobs.md tells more of each key."]
    rest = {key: value for key, value in job.items() if key in keys}
    for key, about in keys.items():
        if key in rest:
            lines += ["", *_described(about), as_yaml({key: rest[key]}).rstrip("\n")]
    lines += ["", "# Every other key, with its default:"]
    for key, about in keys.items():
        if key not in rest:
            lines += ["", *_described(about), f"# {key}: {scalar(_default(key, about, job))}"]
    return "\n".join(lines) + "\n"


def _default(key: str, about: Key, job: Json) -> object:
    gpus = job.get("required_gpus")
    if key == "shm_size" and isinstance(gpus, int):
        return usual_shm(gpus)
    return about.default


def _described(about: Key) -> list[str]:
    text = about.description
    return [f"# {line}" for line in textwrap.wrap(text[:1].upper() + text[1:], _WIDTH)] if text else []
