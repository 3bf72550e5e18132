"""Guaranteed GPUs of groups in the running service: lent, taken back, and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, known_by, serve_api, token_for
from clusters import wait_for
from sqlalchemy import delete
from sqlmodel import col

from schedulearn.scheduler.core.planning.guarantees import Guarantee
from schedulearn.scheduler.core.planning.quotas import Bounds
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Gpu
from schedulearn.scheduler.store.people import groups


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    directory = tmp_path_factory.mktemp("guarantees")
    with serve_api(directory, gpus=8, token="correct-horse-battery") as served:
        assert served.http.put("/api/v1/policy", json={"algorithm": "fifo"}).status_code == 200
        group(served, "vision", "ada", guarantee={"any": 6})
        group(served, "speech", "ben")
        yield served


@pytest.fixture(autouse=True)
def without_jobs(api: Api) -> Iterator[None]:
    yield
    for job in api.http.get("/api/v1/jobs").json()["items"]:
        api.http.delete(f"/api/v1/jobs/{job['id']}")
    wait_for(lambda: held(api) == {"vision": 0, "speech": 0}, what="free GPUs")


def group(api: Api, name: str, *users: str, **bounds: Any) -> None:
    answer = api.http.put(f"/api/v1/groups/{name}", json=bounds)
    assert answer.status_code == 200, answer.text
    for user in users:
        assert api.http.put(f"/api/v1/groups/{name}/members/{user}").status_code == 200


def shown(api: Api) -> dict[str, Any]:
    return {each["name"]: each for each in api.http.get("/api/v1/groups").json()["items"]}


def held(api: Api) -> dict[str, int]:
    return {name: each["used"]["gpus"] for name, each in shown(api).items()}


def messages(api: Api, job: str) -> list[str]:
    return [each["message"] for each in api.http.get(f"/api/v1/jobs/{job}/events").json()["items"]]


def test_an_elastic_borrower_shrinks_for_the_owner_and_is_told(api: Api) -> None:
    lent = api.submit(user="ben", required_gpus=8, elastic=True, min_gpus=2, max_gpus=8)
    api.wait(lent, "running")
    assert (shown(api)["speech"]["borrowed"], shown(api)["speech"]["guarantee"]) == (8, {})
    mine = api.submit(user="ada", required_gpus=4)
    api.wait(mine, "running")
    wait_for(lambda: held(api) == {"vision": 4, "speech": 4}, what="the borrower's return")
    assert f"It gives 4 GPUs back to the group vision, for job {mine}, which waits within the guarantee." in (
        " ".join(messages(api, lent))
    )
    assert (shown(api)["vision"]["borrowed"], shown(api)["speech"]["borrowed"]) == (0, 4)
    more = api.submit(user="ada", required_gpus=4)
    wait_for(lambda: api.job(more)["reason"], what="the decision")
    assert held(api)["vision"] == 4, "4 more would be beyond the guarantee"


def test_a_preemptible_borrower_stops_and_starts_again(api: Api) -> None:
    lent = api.submit(user="ben", required_gpus=6, preemptible=True)
    api.wait(lent, "running")
    mine = api.submit(user="ada", required_gpus=6)
    api.wait(mine, "running")
    wait_for(lambda: api.job(lent)["state"] == "queued", what="the borrower's end")
    assert any("gives its 6 GPUs back to the group vision" in each for each in messages(api, lent))
    api.http.delete(f"/api/v1/jobs/{mine}")
    api.wait(lent, "running")


def test_the_owner_is_told_who_keeps_borrowed_gpus_and_until_when(api: Api) -> None:
    lent = api.submit(user="ben", required_gpus=6, max_duration=3600)
    api.wait(lent, "running")
    mine = api.submit(user="ada", required_gpus=4)
    wait_for(lambda: api.job(mine)["reason"] == "gpus_lent", what="the reason")
    said = api.job(mine)["message"]
    assert said.startswith("It needs 4 GPUs, which the guarantee of the group vision has left.")
    assert f"job {lent} until about 20" in said
    assert api.job(lent)["state"] == "running"
    small = api.submit(user="ben", required_gpus=1)
    wait_for(lambda: f"kept for job {mine}" in api.job(small)["message"], what="its reason")
    api.http.delete(f"/api/v1/jobs/{lent}")
    api.wait(mine, "running")
    api.wait(small, "running")


def test_guarantees_beyond_the_cluster_are_refused_and_change_nothing(api: Api) -> None:
    before = api.http.get("/api/v1/groups").json()
    for guarantee in ({"any": 3}, {"h100": 1}, {"any": 0}, {"any": True}, {"": 1}, {"a,b": 1}, {"any": 1.5}, ["any"]):
        refused = api.http.put("/api/v1/groups/speech", json={"gpus": 1, "guarantee": guarantee})
        assert refused.status_code == 422, guarantee
    many = {f"type {number}": 1 for number in range(21)}
    assert api.http.put("/api/v1/groups/new", json={"guarantee": many}).status_code == 422
    assert (
        "9 GPUs, and the cluster has 8"
        in api.http.put("/api/v1/groups/speech", json={"guarantee": {"any": 3}}).json()["detail"]
    )
    assert api.http.get("/api/v1/groups").json() == before
    assert before["problem"] is None


def test_only_admins_set_guarantees_and_members_see_their_own(api: Api) -> None:
    for role in ("user", "viewer"):
        with known_by(api, token_for(api, "ada" if role == "user" else "eve", role)) as somebody:
            assert somebody.put("/api/v1/groups/vision", json={"guarantee": {"any": 8}}).status_code == 403
            assert somebody.get("/api/v1/groups").status_code == 403
            me = somebody.get("/api/v1/whoami").json()["group"]
            assert (me and (me["guarantee"], me["borrowed"])) == (({"any": 6}, 0) if role == "user" else None)
    assert shown(api)["vision"]["guarantee"] == {"any": 6}


def test_a_cluster_that_shrank_is_told_and_guarantees_can_still_be_lowered(tmp_path: Path) -> None:
    with serve_api(tmp_path, gpus=8) as api:
        group(api, "vision", guarantee={"any": 6})
        group(api, "speech", guarantee={"any": 2})
    db = Database(sqlite_url(tmp_path))

    def lower(guarantee: Guarantee) -> None:
        db.write(lambda conn: groups.set_group(conn, "vision", Bounds(), 0.0, guarantee))

    lower({"any": 5})
    with pytest.raises(InvalidError, match="the cluster has 8"):
        lower({"any": 7})
    db.write(lambda conn: conn.execute(delete(Gpu).where(col(Gpu.ordinal) >= 4)))
    db.close()
    with serve_api(tmp_path, gpus=4) as api:
        group(api, "vision", guarantee={"any": 4})
        said = api.http.get("/api/v1/groups").json()["problem"]
        assert said == "The guarantees of all groups are 6 GPUs, and the cluster has 4. Lower guarantees, or add hosts."
        group(api, "vision", guarantee={"any": 2})
        assert api.http.get("/api/v1/groups").json()["problem"] is None
