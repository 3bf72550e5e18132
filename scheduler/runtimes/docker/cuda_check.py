"""CUDA check in a container of a worker image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import docker.errors
import requests

from schedulearn.scheduler.core.outcomes.blame import Blame, of_start
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.runtimes.cuda_check import LIMIT_S, TASK, Checked, read_answer
from schedulearn.scheduler.runtimes.docker.api import Engine, explain, status_of
from schedulearn.scheduler.runtimes.docker.container import LABEL, gpu_options
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.pinning import complete_env
from schedulearn.scheduler.runtimes.recipes import recipe_path


class ContainerCheck:
    """`CudaCheck` of one Docker host. `image` returns the worker image that fits its GPUs."""

    def __init__(self, host_id: str, engine: Engine, cluster_id: str, image: Callable[[], str]) -> None:
        self._host_id = host_id
        self._engine = engine
        self._cluster_id = cluster_id
        self._image = image
        self._name = f"{TASK}-{cluster_id[:12]}"

    def run(self, gpu_uuids: Sequence[str]) -> Checked:
        image = self._image()
        with self._engine.errors("check CUDA"):
            if not DockerImages(self._engine).has(image):
                return Checked(skipped=f"the image {image} is missing")
            self._remove()
            try:
                return self._run(image, tuple(gpu_uuids))
            except docker.errors.APIError as error:
                found = of_start(explain(error), self._host_id)
                if found is None or found.cause.blame is not Blame.HOST:
                    raise
                return Checked(errors={"": found.sentence})
            except requests.exceptions.Timeout:
                return Checked(skipped=f"it took longer than {LIMIT_S:.0f} s")
            finally:
                self._remove()

    def _run(self, image: str, gpu_uuids: Sequence[str]) -> Checked:
        api = self._engine.api
        task = TaskSpec("check", 1, 0, image, ("python3",), tuple(gpu_uuids))
        host = api.create_host_config(
            init=True, network_mode="none", cap_drop=["ALL"], security_opt=["no-new-privileges"],
            **gpu_options(task, api.info()),
        )  # fmt: skip
        made = api.create_container(
            image=image,
            name=self._name,
            entrypoint=["python3", "-c", recipe_path("cuda_check.py").read_text()],
            command=[],
            environment={**complete_env(task, {}), "SCHEDULEARN_TASK": TASK},
            labels={LABEL: self._cluster_id},
            host_config=host,
        )
        api.start(made["Id"])
        api.wait(made["Id"], timeout=LIMIT_S)
        return read_answer(api.logs(made["Id"], stdout=True, stderr=False), gpu_uuids)

    def _remove(self) -> None:
        with suppress(docker.errors.NotFound):
            try:
                self._engine.api.remove_container(self._name, v=True, force=True)
            except docker.errors.APIError as error:
                if status_of(error) not in (404, 409):
                    raise
