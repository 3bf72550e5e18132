"""`schedulearn serve` over a driver that hangs: it serves, says what hangs, and stops when it is told to."""

import sys
from pathlib import Path

import pytest
from clusters import wait_for
from gpu_probes.nvml_library import build_library
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.process]

QUICKLY = """
import runpy, sys
from schedulearn.metrics.probe import watchdog
from schedulearn.scheduler.core.outcomes import gpu_health
watchdog.HANG_S, watchdog.TRIED_S, watchdog._ALIVE_S = 3.0, 2.0, 0.5
watchdog.find_once.__defaults__ = (4.0,)
gpu_health.STUCK_AFTER_S = 2.0
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The service, with shorter times to wait for NVML."""
STOP_S = 15.0


@pytest.mark.parametrize(
    ("at_start", "later", "says"),
    [
        ("hang_init 0", "", "NVML does not respond"),
        ("hang_count 0", "", "NVML does not respond"),
        ("hang 1", "", "GPU 1 can't be queried: NVML does not respond"),
        ("", "hang 1", "NVML does not answer questions about it"),
    ],
)
def test_a_driver_that_hangs_is_named_and_holds_nothing_up(
    tmp_path: Path, at_start: str, later: str, says: str
) -> None:
    state = tmp_path / "state"
    state.write_text(f"{at_start}\n")
    env = {
        "LD_LIBRARY_PATH": str(build_library(tmp_path / "library")), "FAKE_NVML_GPUS": "3",
        "FAKE_NVML_STATE": str(state),
    }  # fmt: skip
    service = Service(tmp_path / "data", gpus=None, env=env, under=(sys.executable, "-c", QUICKLY))
    with service:
        if later:
            wait_for(lambda: len(service.call("GET", "/api/v1/gpus")) == 3, what="the GPUs")
            state.write_text(f"{later}\n")
        told = wait_for(lambda: _names(service, says), what=f"{says!r}")
        assert service.http.get("/healthz").json()["status"] == "ok"
        service.wait(service.submit("true", gpus=0), "succeeded")
        gpus = {gpu["index"]: gpu["state"] for gpu in service.call("GET", "/api/v1/gpus")}
        if "hang 1" in (at_start, later):
            assert (gpus[0], gpus.get(1, "unhealthy"), gpus[2]) == ("free", "unhealthy", "free"), told
            service.wait(service.submit("true", gpus=2), "succeeded")
        else:
            assert "free" not in gpus.values(), told
            job = service.submit("true")
            wait_for(lambda: "NVML" in service.job(job)["message"], what="the job to say why it waits")
            service.call("POST", f"/api/v1/jobs/{job}/cancel")
        ended = service.stop()
        assert ended.code == 0
        assert ended.seconds < STOP_S
        assert service.leaked() == []


def _names(service: Service, says: str) -> list[str]:
    host = service.call("GET", "/api/v1/hosts/local")
    texts = [str(host.get("gpu_problem", "")), str(host)]
    return [text for text in texts if says in text]
