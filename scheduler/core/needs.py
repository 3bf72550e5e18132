"""Images and shared data that a task needs on its host, and the keys of shared data.

A key names a version of a data set (`sha256:...`) or the outputs of an earlier job (`job:...`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schedulearn.scheduler.core.registries import NO_LOGIN
from schedulearn.scheduler.errors import InvalidError

_KEY = re.compile(r"sha256:[0-9a-f]{64}|job:[0-9a-z]{1,64}")
_JOB = "job:"
INPUTS = "/inputs"


@dataclass(frozen=True, order=True)
class Image:
    name: str
    login: int = NO_LOGIN
    """Id of the login of a user or group that pulls it. A job with another login has no right to it yet."""

    def __str__(self) -> str:
        return f"the image {self.name}"


@dataclass(frozen=True, order=True)
class Data:
    key: str

    def __str__(self) -> str:
        job_id = job_of_key(self.key)
        return f"the outputs of job {job_id}" if job_id else f"the data {self.key[:19]}"


Need = Image | Data
"""An image or shared data that must be on a host before a task starts there."""


def outputs_key(job_id: str) -> str:
    """Return the key of a job's outputs, on any host."""
    return f"{_JOB}{job_id}"


def job_of_key(key: str) -> str | None:
    """Return the id of the job whose outputs these are; None for a version of a data set."""
    return key.removeprefix(_JOB) if key.startswith(_JOB) else None


def folder_name(key: str) -> str:
    """Return the name of the key's folder or volume. Raises InvalidError if `key` is invalid."""
    if not _KEY.fullmatch(key):
        raise InvalidError(f"{key[:100]!r} names neither a version nor the outputs of a job")
    return key.replace(":", "-")


def key_of(name: str) -> str | None:
    """Return the key of such a folder; None for other folders."""
    key = name.replace("-", ":", 1)
    return key if _KEY.fullmatch(key) else None


def needs_of(image: str, inputs: Mapping[str, str], login: int = NO_LOGIN) -> tuple[Need, ...]:
    """Return the needs of a task, its image first. `inputs`: path in the container -> key."""
    return (Image(image, login), *(Data(key) for key in sorted(set(inputs.values()))))


def input_variables(
    data: Mapping[str, str], inputs: Mapping[str, str], seen_at: Callable[[str, str], str]
) -> dict[str, str]:
    """Return the variables that give a script the paths of its data, in a container or not.

    Examples: SCHEDULEARN_DATA_FACES, SCHEDULEARN_INPUT_PREPARE. `data`: `NAME@3` -> path in the container; `inputs`:
    that path -> key; `seen_at`: (key, path in the container) -> path that the script sees."""
    named = {f"DATA_{reference.partition('@')[0]}": target for reference, target in data.items()}
    named |= {f"INPUT_{path.rpartition('/')[2]}": path for path, key in inputs.items() if job_of_key(key)}
    found = {}
    for name, target in named.items():
        if target in inputs:
            found[f"SCHEDULEARN_{re.sub('[^A-Z0-9]', '_', name.upper())}"] = seen_at(inputs[target], target)
    return found
