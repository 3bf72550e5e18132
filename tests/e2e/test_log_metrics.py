"""A plain script, which knows nothing of the service, as a local process: its curve, progress and end time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from services import IMAGE, Service

EPOCHS = 40
SCRIPT = f"""
import math, os, time
print("wandb: View run at https://wandb.example/" + os.environ["WANDB_NAME"])
for epoch in range(1, {EPOCHS + 1}):
    time.sleep(0.5)
    print(f"epoch {{epoch}}/{EPOCHS} loss {{math.exp(-epoch / 10):.4f}}")
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_plain_script_shows_curve_progress_and_end_time(tmp_path: Path) -> None:
    with Service(tmp_path / "data", runtime="process") as served:
        body = {"name": "plain", "type": "Pytorch", "container_image": IMAGE, "required_gpus": 1, "launcher": "none"}
        job_id = served.http.post("/api/v1/jobs", json={**body, "command": f'python3 -c "{quoted(SCRIPT)}"'}).json()[
            "id"
        ]

        def at_half() -> dict[str, Any] | None:
            job: dict[str, Any] = served.http.get(f"/api/v1/jobs/{job_id}").json()
            assert job["state"] != "failed", served.logs(job_id)
            known = job["eta"] is not None and job["eta"]["basis"] == "log"
            return job if known and job["progress"] >= 0.5 else None

        half = wait_for(at_half, seconds=60, what="an end time by the log at half of the run")
        assert half["progress_from"] == "log"
        shown = served.invoke("show", job_id).out
        assert "read from the log" in shown
        assert "https://wandb.example/plain" in shown
        ended = served.wait(job_id, "succeeded", seconds=60)
        began, end, told = (at(text) for text in (ended["started_at"], ended["finished_at"], half["eta"]["end"]))
        assert abs(told - end) < 0.3 * (end - began) / 2

        def complete() -> dict[str, Any] | None:
            profile: dict[str, Any] = served.http.get(f"/api/v1/jobs/{job_id}/profile").json()
            return profile if len(profile["metrics"]["loss"]) == EPOCHS else None

        profile = wait_for(complete, what="the whole curve")
        assert [step for step, *_ in profile["metrics"]["loss"]] == list(range(1, EPOCHS + 1))
        assert (profile["metrics_from_log"], profile["reported_at"]) == (["loss"], None)
        assert profile["logged_progress"] == {
            "epoch": EPOCHS, "epochs": EPOCHS, "position": 0, "epoch_steps": 0, "fraction": 1.0,
        }  # fmt: skip


def quoted(script: str) -> str:
    return script.replace("\\", "\\\\").replace('"', '\\"')


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
