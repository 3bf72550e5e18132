"""How many hosts are to be on, over time and as the API shows it."""

from pathlib import Path

from apis import serve_api
from clusters import wait_for

from schedulearn.scheduler.core.host_scaling import ScaleDownDelay


def test_more_hosts_are_wanted_at_once_and_fewer_only_after_the_window() -> None:
    steadied = ScaleDownDelay(600.0)
    wanted = [(0, 2), (100, 5), (200, 3), (600, 1), (799, 1), (801, 1), (1199, 1), (1201, 1), (1300, 4)]
    assert [steadied.settle(float(at), hosts) for at, hosts in wanted] == [2, 5, 5, 5, 5, 3, 3, 1, 4]
    assert steadied.settle(1301.0, None) is None
    assert steadied.settle(1302.0, 1) == 1, "what another policy wanted is forgotten"


def test_without_a_window_the_policy_has_its_way_at_once() -> None:
    steadied = ScaleDownDelay(0.0)
    assert [steadied.settle(at, hosts) for at, hosts in ((0.0, 5), (1.0, 1), (2.0, 2))] == [5, 1, 2]


def test_the_api_shows_how_many_hosts_should_be_on(tmp_path: Path) -> None:
    with serve_api(tmp_path, scale_window=0) as api:
        before = api.http.get("/api/v1/cluster").json()
        assert (before["desired_hosts"], before["utility"], before["utility_range"]) == (None, None, None)
        api.http.put("/api/v1/policy", json={"algorithm": "goodput", "metric": "cost"})
        api.wait(api.submit(), "running")
        wait_for(lambda: api.http.get("/api/v1/cluster").json()["desired_hosts"] == 1, what="the policy's word")
        after = api.http.get("/api/v1/cluster").json()
        assert after["utility"] == after["gpus_used"] / after["gpus"] > 0, "a rigid job counts as perfectly scaling"
        assert after["utility_range"] == [0.35, 0.80]
        assert "schedulearn_cluster_utility " in api.http.get("/metrics").text
