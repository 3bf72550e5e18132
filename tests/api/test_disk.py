"""What takes room on a host, and fetches that no job waits for."""

from __future__ import annotations

from apis import FIVE_KEYS, Api
from clusters import wait_for

from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.runtimes.contract import FetchProgress


def test_a_host_tells_what_takes_room_and_fetches_what_it_is_asked_to(api: Api) -> None:
    image = FIVE_KEYS["container_image"]
    api.runtime.images.present = {f"{image}:latest", image, "foreign:1"}
    api.runtime.images.fetchable = {"new:1": [FetchProgress(50.0, "half")]}
    job = api.submit()
    api.wait(job, "running")
    api.runtime.write_checkpoint(job, b"x" * 10)
    api.runtime.data.link(f"job:{job}", job)
    found = api.http.get("/api/v1/hosts/local/disk").json()
    images = {each["name"]: each for each in found["images"]}
    assert images[f"{image}:latest"]["in_use"]
    assert not images["foreign:1"]["in_use"]
    assert images["foreign:1"]["used_at"] is None
    assert found["images_bytes"] == 3 * GIB
    assert found["checkpoints"] == [{"job": job, "bytes": 10}]
    assert found["data"] == [{"key": f"job:{job}", "bytes": 0}]
    assert api.http.post("/api/v1/hosts/local/images", json={"image": "new:1"}).status_code == 202
    wait_for(lambda: "new:1" in (api.runtime.images.present or ()))
    api.http.post("/api/v1/hosts/local/images", json={"image": "nowhere:1"})
    [failed] = wait_for(lambda: api.http.get("/api/v1/hosts/local/disk").json()["fetches"])
    assert (failed["image"], failed["percent"]) == ("nowhere:1", None)
    assert failed["message"]


def test_unknown_hosts_and_names_that_no_image_has_are_refused(api: Api) -> None:
    assert api.http.get("/api/v1/hosts/nobody/disk").status_code == 404
    assert api.http.post("/api/v1/hosts/local/images", json={"image": "-x"}).status_code == 422
