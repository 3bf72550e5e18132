"""A sweep in a file, as YAML or JSON."""

from __future__ import annotations

import json
import re
from typing import IO

import click
import yaml

from schedulearn.api.cli.common import whoami
from schedulearn.api.client.client import Json


class _Loader(yaml.SafeLoader):
    """Plain values only. Dates stay text, since JSON has none; `1e-3` is a number, which YAML 1.1 takes for text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def read_sweep(file: IO[str]) -> Json:
    """What to send, with what a file may leave out: the type, one GPU, who you are; the name may stand in the job."""
    found = _read(file)
    job = found.get("job")
    if not isinstance(job, dict):
        return found
    job = {"type": "Pytorch", "required_gpus": 1, **job}
    if "name" in job and "name" not in found:
        found = {**found, "name": job.pop("name")}
    if "user" not in job and (user := whoami()):
        job["user"] = user
    return {**found, "job": job}


def _read(file: IO[str]) -> Json:
    text = file.read()
    try:
        found = _parse(text)
        if isinstance(found, dict):
            return dict(json.loads(json.dumps(found, allow_nan=False)))  # names that are numbers become text
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise click.BadParameter(f"it is neither YAML nor JSON: {error}", param_hint="FILE") from error
    raise click.BadParameter("it must hold one sweep: name, job, and one of grid, random, list", param_hint="FILE")


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return yaml.load(text, Loader=_Loader)  # noqa: S506
