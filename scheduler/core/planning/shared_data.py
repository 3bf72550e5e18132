"""What hosts have of the data that jobs share: a version of a data set, or the outputs of an earlier job. Pure.

A key names it: `sha256:...` or `job:...`. For all that looks for what a job needs, waits for it, shows how far it is
and removes what nobody uses, it is a name beside those of images (`need_of`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from schedulearn.scheduler.errors import InvalidError

_KEY = re.compile(r"sha256:[0-9a-f]{64}|job:[0-9a-z]{1,64}")
_NEED = "data "
"""No image's name has a space."""
_JOB = "job:"
INPUTS = "/inputs"


def need_of(key: str) -> str:
    return f"{_NEED}{key}"


def key_of_need(need: str) -> str | None:
    """None for an image."""
    return need.removeprefix(_NEED) if need.startswith(_NEED) else None


def outputs_key(job_id: str) -> str:
    """Of all that a job wrote to its outputs, on whatever host."""
    return f"{_JOB}{job_id}"


def job_of_key(key: str) -> str | None:
    """None for a version of a data set."""
    return key.removeprefix(_JOB) if key.startswith(_JOB) else None


def folder_name(key: str) -> str:
    """For folders and volumes. Raises InvalidError for what is no key."""
    if not _KEY.fullmatch(key):
        raise InvalidError(f"{key[:100]!r} names neither a version nor the outputs of a job")
    return key.replace(":", "-")


def key_of(name: str) -> str | None:
    """The key of such a folder; None for another name."""
    key = name.replace("-", ":", 1)
    return key if _KEY.fullmatch(key) else None


def needs_of(image: str, inputs: Mapping[str, str]) -> tuple[str, ...]:
    """All that a host must have before a task starts there. `inputs`: path in the container -> key."""
    return (image, *(need_of(key) for key in sorted(set(inputs.values())))) if inputs else (image,)


def input_variables(
    data: Mapping[str, str], inputs: Mapping[str, str], seen_at: Callable[[str, str], str]
) -> dict[str, str]:
    """How a script finds its data, in a container or not: SCHEDULEARN_DATA_FACES and SCHEDULEARN_INPUT_PREPARE.
    `data`: `NAME@3` -> path in the container; `inputs`: that path -> key."""
    named = {f"DATA_{reference.partition('@')[0]}": target for reference, target in data.items()}
    named |= {f"INPUT_{path.rpartition('/')[2]}": path for path, key in inputs.items() if job_of_key(key)}
    found = {}
    for name, target in named.items():
        if target in inputs:
            found[f"SCHEDULEARN_{re.sub('[^A-Z0-9]', '_', name.upper())}"] = seen_at(inputs[target], target)
    return found


def described(need: str) -> str:
    """For people."""
    key = key_of_need(need)
    if key is None:
        return f"the image {need}"
    job_id = job_of_key(key)
    return f"the outputs of job {job_id}" if job_id else f"the data {key[:19]}"
