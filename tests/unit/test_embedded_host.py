"""What the service takes its own machine for where a question fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulearn.metrics.probe.readings import Inventory
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.embedded import Before, embedded_host
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
from schedulearn.scheduler.settings import ClusterSettings


@pytest.mark.parametrize(
    ("chosen", "before", "runtime"),
    [
        ("auto", "docker", "docker"),  # an engine that is down at a restart is waited for
        ("auto", "process", "process"),
        ("auto", "", "process"),
        ("process", "docker", "process"),
    ],
)
def test_an_engine_that_does_not_answer_at_a_restart_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, before: str, runtime: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    settings = ClusterSettings(runtime=chosen, simulate_gpus=1)
    host = embedded_host(tmp_path, "cluster", settings, Before(before))
    host.runtime.close()
    assert host.runtime_name == runtime


@pytest.mark.parametrize(("before", "simulated"), [(Before("docker", True), 0), (Before("docker"), 4), (Before(), 0)])
def test_whether_an_engine_gives_gpus_is_as_it_was_while_it_can_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Before, simulated: int
) -> None:
    def silent(self: DockerRuntime) -> None:
        raise RuntimeFault("it does not answer")

    monkeypatch.setattr(DockerRuntime, "survey", silent)
    monkeypatch.setattr("schedulearn.scheduler.runtimes.docker.runtime.ping", lambda url: None)
    monkeypatch.setattr("schedulearn.metrics.probe.nvml.find_gpus", lambda: Inventory(problem="none"))
    monkeypatch.setattr("schedulearn.metrics.probe.nvml.has_driver", lambda: False)
    host = embedded_host(tmp_path, "cluster", ClusterSettings(), before)
    host.runtime.close()
    assert host.simulated_gpus == simulated
    assert (host.probe is None) is bool(simulated)
