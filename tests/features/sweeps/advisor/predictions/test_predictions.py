"""`schedulearn predictions`, from jobs that really ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import wait_for
from services import IMAGE, Service

pytestmark = pytest.mark.process


@pytest.mark.long
def test_what_was_predicted_is_shown_beside_what_came(tmp_path: Path) -> None:
    end = tmp_path / "end"
    given = ("submit", "--image", IMAGE, "--launcher", "none", "--family", "waits")
    with Service(tmp_path / "data") as service:
        assert "No job with a prediction has ended well yet." in service.invoke("predictions").out
        service.invoke(*given, "--", "sleep", "0.1")
        service.invoke(*given, "-d", "--", "sh", "-c", f"until [ -e {end} ]; do sleep 0.1; done")
        wait_for(lambda: service.invoke("predictions", "--json").json["items"], what="the prediction of the second")
        end.touch()
        wait_for(lambda: service.invoke("predictions", "--json").json["compared"], what="what came of it")
        found = service.invoke("predictions", "--json").json
        assert (found["compared"], found["interval"], len(found["items"])) == (1, 0.9, 1)
        [item] = found["items"]
        assert item["low"] < item["gpu_seconds"] < item["high"]
        assert (item["rests_on"], item["family"]) == (1, "waits")
        assert found["held"] == (item["low"] <= item["actual"] <= item["high"])
        shown = service.invoke("predictions", "--family", "waits").out
        assert item["job"] in shown
        assert f"{found['held']} of 1 intervals held" in shown
        assert service.invoke("predictions", "--family", "other", "--json").json["items"] == []
        [family] = service.invoke("predictions", "families", "--json").json["items"]
        assert {key: family[key] for key in ("family", "compared", "held", "version", "pinned")} == {
            "family": "waits", "compared": 1, "held": found["held"], "version": 1, "pinned": False,
        }  # fmt: skip
        assert family["mean_error"] == abs(item["actual"] - item["gpu_seconds"]) / item["actual"]
        assert "waits" in service.invoke("predictions", "families", "--window", "5").out
        assert "All ended jobs of waits count" in service.invoke("predictions", "versions", "waits").out
        assert "has no version 2" in service.invoke("predictions", "pin", "waits", "2", code=1).err
        assert service.invoke("predictions", "unpin", "waits", "--json").json == {"family": "waits", "items": []}
