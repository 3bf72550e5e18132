"""A file with an experiment, or with what advice is asked for."""

from __future__ import annotations

import json
from typing import IO

import click

from schedulearn.api.cli.common import clean, whoami
from schedulearn.api.cli.job_files.reading import LARGEST, read_values
from schedulearn.api.client.client import Json


def read_file(file: IO[str]) -> Json:
    """The object in `file`, as YAML or JSON."""
    try:
        found = read_values(file.read(LARGEST + 1), file.name)
        json.dumps(found, allow_nan=False)
        if not isinstance(found, dict):
            raise ValueError("it must hold one object, with name, job and factors")
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="FILE") from error
    return found


def complete(found: Json) -> Json:
    """What to send, with what a file may leave out: the type, one GPU, who you are; the name may stand in the job."""
    job = found.get("job")
    if not isinstance(job, dict):
        return found
    factors = found.get("factors")
    varied = factors if isinstance(factors, dict) else {}
    common = {"type": "Pytorch", "required_gpus": 1}
    job = {**{key: value for key, value in common.items() if key not in varied}, **job}
    if "name" in job and "name" not in found:
        found = {**found, "name": job.pop("name")}
    if "user" not in job and (user := whoami()):
        job["user"] = user
    return {**found, "job": job}
