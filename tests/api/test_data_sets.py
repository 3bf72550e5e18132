"""What the operator declared is listed, and can be named."""

from __future__ import annotations

from pathlib import Path

from apis import FIVE_KEYS, serve_api


def test_data_sets_are_listed_and_jobs_get_them(tmp_path: Path) -> None:
    with serve_api(tmp_path, data_sets={"wiki": "/srv/wiki"}) as api:
        assert api.http.get("/api/v1/data-sets").json() == [{"name": "wiki", "path": "/srv/wiki"}]
        job = api.job(api.submit(mounts=["wiki"], cpus=2, memory="1g"))
        assert (job["mounts"], job["cpus"], job["memory"]) == ({"wiki": "/data/wiki"}, 2, 1 << 30)
        refused = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "mounts": ["wikki"]})
        assert refused.status_code == 422
        assert "wikki" in refused.json()["detail"]
