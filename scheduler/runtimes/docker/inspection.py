"""Inspection of one container: the engine's state, and causes from its output."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import docker.errors
from docker.utils import parse_repository_tag

from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    has_real_gpus,
    read_task,
    says_blind,
    why_not_run,
)
from schedulearn.scheduler.runtimes.docker.states import Inspected
from schedulearn.scheduler.runtimes.exit_codes import FAILED, command_exit_code, why_alone, why_failed

_LAST_WORDS = 40  # lines at the end of the output, in which a failed program says why


def inspect(engine: Engine, task_id: str, container: str) -> Inspected | None:
    """Return the state of a container; None if it is gone. Raises RuntimeFault."""
    with engine.errors("inspect a container"):
        try:
            found = engine.api.inspect_container(container)
            task = read_task(task_id, found)
            task = replace(task, image=_digest_of(engine, found))
        except docker.errors.NotFound:
            return None
        with suppress(docker.errors.APIError):  # the exit code is known even if the log can't be read
            if task.exit_code:
                task = _explained(engine, container, task, has_real_gpus(found))
            elif task.exit_code == 0 and not task.error:
                task = replace(task, error=why_alone(engine.api.logs(container, tail=1)))
    return Inspected(found["State"]["Status"], task)


def _digest_of(engine: Engine, container: Mapping[str, Any]) -> str:
    """Return the digest of a container's image. Its tag may refer to another image by now."""
    image = str(container["Image"])
    try:
        digests = [str(each) for each in engine.api.inspect_image(image).get("RepoDigests") or ()]
    except docker.errors.APIError:  # the image was removed, or its record is damaged
        return image
    repository, _ = parse_repository_tag(container["Config"]["Image"])
    return next((each for each in digests if each.startswith(f"{repository}@")), image)


def _explained(engine: Engine, container: str, task: ObservedTask, real_gpus: bool) -> ObservedTask:
    """Return a failed task with the cause from its output."""
    tail = engine.api.logs(container, tail=_LAST_WORDS)
    if real_gpus and says_blind(tail):
        return replace(task, state=EngineState.LOST, error="its container lost access to its GPUs")
    if not task.error and (why := why_failed(tail)):
        task = replace(task, error=why)
    if task.exit_code == FAILED:
        return replace(task, exit_code=command_exit_code(FAILED, tail))
    if task.exit_code in (NOT_EXECUTABLE, NOT_FOUND) and not task.error:
        said = engine.api.logs(container, stdout=False, tail=1)
        return replace(task, error=why_not_run(said, task.exit_code))
    return task
