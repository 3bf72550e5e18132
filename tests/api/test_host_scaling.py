"""How many hosts are to be on, as the API shows it."""

from pathlib import Path

from apis import serve_api
from clusters import wait_for


def test_the_api_shows_how_many_hosts_should_be_on(tmp_path: Path) -> None:
    with serve_api(tmp_path, scale_window=0) as api:
        api.http.put("/api/v1/policy", json={"algorithm": "fifo"})
        wait_for(lambda: api.http.get("/api/v1/cluster").json()["desired_hosts"] is None, what="a decision of `fifo`")
        before = api.http.get("/api/v1/cluster").json()
        assert (before["utility"], before["utility_range"]) == (None, None)
        assert before["scaling"] is None
        api.http.put("/api/v1/policy", json={"algorithm": "goodput", "metric": "cost"})
        api.wait(api.submit(), "running")
        wait_for(lambda: api.http.get("/api/v1/cluster").json()["desired_hosts"] == 1, what="the policy's word")
        after = api.http.get("/api/v1/cluster").json()
        assert after["utility"] == after["gpus_used"] / after["gpus"] > 0, "a rigid job counts as perfectly scaling"
        assert after["utility_range"] == [0.35, 0.80]
        assert "schedulearn_cluster_utility " in api.http.get("/metrics").text


def test_the_api_shows_within_which_bounds_hosts_are_parked(tmp_path: Path) -> None:
    with serve_api(tmp_path, mark_parked=True, scale_window=5, most_hosts=3, scale_target=0.8) as api:
        wait_for(lambda: api.http.get("/api/v1/cluster").json()["desired_hosts"] == 1, what="a decision")
        assert api.http.get("/api/v1/cluster").json()["scaling"] == {
            "least": 1, "most": 3, "initial": None, "target": 0.8, "window": 5, "hook": False,
        }  # fmt: skip
