"""What was: the timeline, events that are searched, policies that were in force, the queue in its order."""

from typing import Any

import pytest
from apis import Api
from clusters import wait_for


def test_the_timeline_shows_who_had_which_gpu_and_when(api: Api) -> None:
    first = api.submit(required_gpus=3, name="first", user="ann")
    api.wait(first, "running")
    api.runtime.finish(f"schedulearn-{first}-1-0")
    api.wait(first, "succeeded")
    second = api.submit(required_gpus=1, name="second")
    api.wait(second, "running")
    found = api.http.get("/api/v1/timeline").json()
    assert [(lane["host"], lane["index"]) for lane in found["lanes"]] == [("local", index) for index in range(4)]
    assert [(s["job"], s["name"], s["outcome"], len(s["lanes"])) for s in found["spans"]] == [
        (second, "second", "", 1),
        (first, "first", "completed", 3),
    ]
    ended = found["spans"][1]
    assert ended["claimed_at"] <= ended["started_at"] <= ended["finished_at"]
    assert found["complete"]


def test_the_timeline_tells_what_became_of_each_job(api: Api) -> None:
    def ends() -> dict[str, str | None]:
        return {span["name"]: span["end"] for span in api.http.get("/api/v1/timeline").json()["spans"]}

    jobs = {name: api.submit(required_gpus=1, name=name) for name in ("good", "bad", "gone", "runs")}
    for job in jobs.values():
        api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{jobs['good']}-1-0")
    api.runtime.finish(f"schedulearn-{jobs['bad']}-1-0", 3)
    api.http.post(f"/api/v1/jobs/{jobs['gone']}/cancel")
    for name, state in {"good": "succeeded", "bad": "failed", "gone": "cancelled"}.items():
        api.wait(jobs[name], state)
    assert ends() == {"good": "succeeded", "bad": "failed", "gone": "cancelled", "runs": None}


@pytest.mark.slow
def test_a_container_that_another_followed_was_replaced_or_failed(api: Api) -> None:
    job = api.submit(required_gpus=1, max_restarts=1)
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", 3)
    wait_for(lambda: api.job(job)["attempt"] == 2, seconds=60, what="another attempt")
    found = api.http.get("/api/v1/timeline").json()["spans"]
    assert [(span["attempt"], span["end"]) for span in found] == [(2, None), (1, "failed")]


def test_what_is_expected_of_running_and_waiting_jobs_is_told(api: Api) -> None:
    first = api.submit(required_gpus=4, name="first", max_duration=120.0)
    second = api.submit(required_gpus=3, name="second", user="ann")
    api.wait(first, "running")

    def expected(**query: int) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = api.http.get("/api/v1/timeline/expected", params=query).json()["items"]
        return items

    wait_for(lambda: len(expected()) == 2, seconds=30, what="a prediction")
    running, waiting = expected()
    assert (running["job"], running["start"]) == (first, None)
    assert (waiting["job"], waiting["name"], waiting["gpus"]) == (second, "second", 3)
    assert waiting["submitted_at"] <= running["end"] <= waiting["start"] < waiting["end"] <= waiting["latest"]
    assert len(expected(limit=1)) == 1
    api.runtime.finish(f"schedulearn-{first}-1-0")
    api.wait(first, "succeeded")
    assert first not in {item["job"] for item in expected()}, "it has ended, whatever was predicted"


def test_the_timeline_is_bounded_and_says_so(api: Api) -> None:
    for _ in range(3):
        api.wait(api.submit(required_gpus=1), "running")
    found = api.http.get("/api/v1/timeline", params={"limit": 2}).json()
    assert (len(found["spans"]), found["complete"]) == (2, False)
    long_ago = {"since": "2020-01-01T00:00:00Z", "until": "2020-02-01T00:00:00"}
    assert api.http.get("/api/v1/timeline", params=long_ago).json()["spans"] == []
    backwards = {"since": "2020-02-01T00:00:00Z", "until": "2020-01-01T00:00:00Z"}
    assert api.http.get("/api/v1/timeline", params=backwards).status_code == 422


def test_events_are_found_by_what_they_say(api: Api) -> None:
    job = api.submit(required_gpus=4, name="holder")
    api.wait(job, "running")
    waiter = api.submit(required_gpus=2)
    wait_for(lambda: api.job(waiter)["reason"] == "waiting_for_gpus", what="the decision")
    api.http.put("/api/v1/policy", json={"algorithm": "las"})

    def search(**query: object) -> list[str]:
        items = api.http.get("/api/v1/events:search", params=query).json()["items"]  # type: ignore[arg-type]
        assert [item["id"] for item in items] == sorted((item["id"] for item in items), reverse=True)
        return [item["kind"] for item in items]

    assert search(kind="policy.") == ["policy.changed"]
    assert search(job=job)[-1] == "job.queued"
    assert search(q="IS NOW LAS") == ["policy.changed"]
    assert "job.queued" in search(q="submitted")
    assert search(q="100%") == []
    newest = api.http.get("/api/v1/events:search", params={"limit": 1}).json()["items"][0]["id"]
    older = api.http.get("/api/v1/events:search", params={"before": newest}).json()["items"]
    assert newest not in {item["id"] for item in older}


def test_policies_that_were_in_force_are_remembered_in_order(api: Api) -> None:
    assert api.http.get("/api/v1/policy/history").json() == []
    for algorithm in ("las", "fifo"):
        api.http.put("/api/v1/policy", json={"algorithm": algorithm})
    found = api.http.get("/api/v1/policy/history").json()
    assert [choice["algorithm"] for choice in found] == ["las", "fifo"]
    assert found[0]["at"] <= found[1]["at"]


def test_the_queue_is_listed_in_its_order_page_by_page(api: Api) -> None:
    holder = api.submit(required_gpus=4)
    api.wait(holder, "running")
    waiting = [api.submit(required_gpus=2) for _ in range(5)]
    query = {"state": "queued", "order": "oldest", "limit": 2}
    found, cursor = [], None
    while True:
        page = api.http.get("/api/v1/jobs", params={**query, **({"cursor": cursor} if cursor else {})}).json()
        found += [job["id"] for job in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == waiting
    assert api.http.get("/api/v1/cluster").json()["gpus_wanted"] == 10
