import time
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from apis import FIVE_KEYS, Api, read_sse, serve_api
from clusters import wait_for

from schedulearn.scheduler.runtimes.log_store import LogStore


def test_the_five_keys_are_a_complete_job(api: Api) -> None:
    answer = api.http.post("/api/v1/jobs", json=FIVE_KEYS)
    assert answer.status_code == 201
    job = answer.json()
    assert list(job)[:2] == ["id", "name"], "always in the same order"
    assert {key: job[key] for key in FIVE_KEYS} == FIVE_KEYS
    assert (job["state"], job["priority"], job["launcher"], job["shm_size"]) == ("queued", 50, "horovod", 8 << 30)
    api.wait(job["id"], "running")
    [spec] = api.runtime.tasks()
    assert spec.argv == ("horovodrun", "-np", "2", "-H", "localhost:2", "python", "examples/digits/train.py")
    assert api.job(job["id"])["allocation"] == {"local": 2}


def test_batch_bounds_and_epochs_reach_the_job_and_its_spec(api: Api) -> None:
    keys = {"batch_size": 64, "max_batch_size": 512, "epochs": 20}
    with_keys, without = api.submit(required_gpus=1, **keys), api.submit(required_gpus=1)
    for job, given in ((with_keys, keys), (without, dict.fromkeys(keys))):
        api.wait(job, "running")
        assert {key: api.job(job)[key] for key in keys} == given
    specs = {spec.job_id: spec for spec in api.runtime.tasks()}
    assert {name: specs[with_keys].env[f"SCHEDULEARN_{name.upper()}"] for name in keys} == {
        "batch_size": "64", "max_batch_size": "512", "epochs": "20"}  # fmt: skip
    assert "SCHEDULEARN_EPOCHS" not in specs[without].env


def test_a_batch_is_stored_all_or_none(api: Api) -> None:
    good = api.http.post("/api/v1/jobs:batch", json=[{**FIVE_KEYS, "name": str(i)} for i in range(3)])
    assert good.status_code == 201
    assert [job["name"] for job in good.json()["items"]] == ["0", "1", "2"]
    bad = api.http.post("/api/v1/jobs:batch", json=[FIVE_KEYS, {**FIVE_KEYS, "required_gpus": -1}])
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["field"] == "1.required_gpus"
    assert api.http.post("/api/v1/jobs:batch", json=[]).status_code == 422
    assert sum(api.http.get("/api/v1/jobs").json()["counts"].values()) == 3


def test_the_same_idempotency_key_makes_one_job(api: Api) -> None:
    first = api.http.post("/api/v1/jobs", json=FIVE_KEYS, headers={"Idempotency-Key": "k"})
    again = api.http.post("/api/v1/jobs", json=FIVE_KEYS, headers={"Idempotency-Key": "k"})
    other = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "name": "x"}, headers={"Idempotency-Key": "k"})
    assert first.json()["id"] == again.json()["id"]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def test_the_same_idempotency_key_makes_one_batch(api: Api) -> None:
    def send(key: str, count: int = 3) -> httpx.Response:
        batch = [{**FIVE_KEYS, "name": str(index), "after": [first]} for index in range(count)]
        return api.http.post("/api/v1/jobs:batch", json=batch, headers={"Idempotency-Key": key})

    first = api.submit(required_gpus=4, command="sleep 60")
    once, again, other = send("k"), send("k"), send("k", 2)
    assert once.status_code == 201
    assert [job["id"] for job in once.json()["items"]] == [job["id"] for job in again.json()["items"]]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")

    gone = once.json()["items"][1]["id"]
    assert api.http.post(f"/api/v1/jobs/{gone}/cancel").status_code == 200
    assert api.http.post(f"/api/v1/jobs/{gone}/purge").status_code == 200
    late = send("k")
    assert (late.status_code, late.json()["code"]) == (409, "idempotency_key_reused")
    assert "1 of its 3 jobs were deleted since" in late.json()["detail"]

    assert api.http.post(f"/api/v1/jobs/{first}/cancel").status_code == 200
    api.wait(first, "cancelled")
    assert send("l").status_code == 201
    assert api.http.post(f"/api/v1/jobs/{first}/purge").status_code == 200
    assert send("l").status_code == 201, "what it was told the first time, though the job before it is gone"
    assert send("m").status_code == 422


def test_the_jobs_of_a_batch_wait_for_a_bounded_number_of_others(api: Api) -> None:
    first = [api.submit(required_gpus=4, command="sleep 60")] * 100
    batch = [{**FIVE_KEYS, "after": first}] * 501
    refused = api.http.post("/api/v1/jobs:batch", json=batch)
    assert refused.status_code == 422
    assert "at most 50,000 others in `after`, not 50,100" in refused.json()["detail"]


def test_jobs_are_listed_newest_first_in_pages(api: Api) -> None:
    ids = [api.submit(name=f"job {i}") for i in range(7)]
    seen, cursor = [], None
    while True:
        page = api.http.get("/api/v1/jobs", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert [job["name"] for job in api.http.get("/api/v1/jobs", params={"q": "b 4"}).json()["items"]] == ["job 4"]
    assert api.http.get("/api/v1/jobs", params={"state": "failed"}).json()["items"] == []
    assert api.http.get("/api/v1/jobs", params={"q": "%"}).json()["items"] == []


def test_a_job_that_waits_says_why(api: Api) -> None:
    first, second = api.submit(required_gpus=4), api.submit(required_gpus=4)
    api.wait(first, "running")
    wait_for(lambda: api.job(second)["reason"] == "waiting_for_gpus")
    assert "It waits for 4 GPUs and comes first." in api.job(second)["message"]
    huge = api.submit(required_gpus=5)
    wait_for(lambda: api.job(huge)["reason"] == "unsatisfiable_now")


def test_cancel_and_priority(api: Api) -> None:
    running, waiting = api.submit(required_gpus=4), api.submit()
    api.wait(running, "running")
    assert api.http.patch(f"/api/v1/jobs/{waiting}", json={"priority": 90}).json()["priority"] == 90
    assert api.http.delete(f"/api/v1/jobs/{waiting}").json()["state"] == "cancelled"
    assert api.http.post(f"/api/v1/jobs/{running}/cancel").status_code == 200
    api.wait(running, "cancelled")
    assert api.http.patch(f"/api/v1/jobs/{running}", json={"priority": 1}).status_code == 409


def test_events_of_a_job_tell_its_life_and_its_attempts_are_kept(api: Api) -> None:
    job = api.submit(max_restarts=1)
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0", 1)
    wait_for(lambda: api.job(job)["attempt"] == 2 and api.job(job)["state"] == "running")
    api.runtime.finish(f"schedulearn-{job}-2-0", 0)
    detail = api.wait(job, "succeeded")
    assert [(task["attempt"], task["exit_code"]) for task in detail["tasks"]] == [(1, 1), (2, 0)]
    kinds = [event["kind"] for event in api.http.get(f"/api/v1/jobs/{job}/events").json()["items"]]
    assert kinds[0] == "job.queued"
    assert kinds[-1] == "job.succeeded"
    assert kinds.count("job.running") == 2


def test_the_event_stream_is_live_and_resumes_after_the_last_id(api: Api) -> None:
    with api.http.stream("GET", "/api/v1/events", headers={"accept": "text/event-stream"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        job = api.submit()
        stream = read_sse(response)
        first = next(stream)
        assert (first["data"]["kind"], first["data"]["job_id"]) == ("job.queued", job)
    api.wait(job, "running")
    with api.http.stream(
        "GET", "/api/v1/events", headers={"accept": "text/event-stream", "last-event-id": first["id"]}
    ) as response:
        second = next(read_sse(response))
        assert int(second["id"]) == int(first["id"]) + 1


def test_logs_are_followed_live_over_all_attempts_and_stay(api: Api) -> None:
    job = api.submit(max_restarts=1)
    api.wait(job, "running")
    api.write_log(job, b"attempt one\n")
    with api.http.stream("GET", f"/api/v1/jobs/{job}/logs", headers={"accept": "text/event-stream"}) as response:
        stream = read_sse(response)
        assert next(stream)["data"]["text"] == "attempt one\n"
        api.write_log(job, "caf\u00e9 \u2603".encode()[:-1])
        assert next(stream)["data"]["text"] == "café "  # the cut character waits for its rest
        api.write_log(job, "\u2603".encode()[-1:] + b"\n", end=True)
        assert next(stream)["data"]["text"] == "☃\n"
        api.runtime.finish(f"schedulearn-{job}-1-0", 1)
        wait_for(lambda: api.job(job)["attempt"] == 2 and api.job(job)["state"] == "running")
        api.write_log(job, b"attempt two\n", end=True, attempt=2)
        second = next(stream)
        assert second["data"]["text"] == "attempt two\n"
        api.runtime.finish(f"schedulearn-{job}-2-0", 0)
        assert next(stream)["event"] == "end"
    text = api.http.get(f"/api/v1/jobs/{job}/logs")
    assert text.text == "attempt one\ncafé ☃\nattempt two\n"
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    rest = api.http.get(f"/api/v1/jobs/{job}/logs", params={"offset": int(second["id"]) - len("two\n")})
    assert rest.text == "two\n"


def test_a_log_tells_when_and_where_its_lines_were_written(api: Api) -> None:
    job = api.submit(max_restarts=1)
    api.wait(job, "running")
    writer = LogStore(api.directory / "logs").writer(f"schedulearn-{job}-1-0")
    writer.append(b"old\n")
    writer.append("caf\u00e9\n".encode(), 1_700_000_000)
    writer.append(b"late", 1_700_000_009)
    writer.close()
    api.runtime.finish(f"schedulearn-{job}-1-0", 1)
    wait_for(lambda: api.job(job)["attempt"] == 2 and api.job(job)["state"] == "running")
    api.write_log(job, b"again\n", end=True, attempt=2)
    api.runtime.finish(f"schedulearn-{job}-2-0", 0)
    api.wait(job, "succeeded")
    url = f"/api/v1/jobs/{job}/logs"
    with api.http.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
        first, second = (event["data"] for event in read_sse(response) if event["event"] == "log")
    assert first == {
        "text": "old\ncafé\nlate", "attempt": 1, "rank": 0, "times": [[1, 1_700_000_000], [2, 1_700_000_009]],
    }  # fmt: skip
    assert second == {"text": "again\n", "attempt": 2, "rank": 0, "times": []}
    text = api.http.get(url, params={"timestamps": True}).text
    assert text == "- old\n2023-11-14T22:13:20Z café\n2023-11-14T22:13:29Z lateagain\n"


def test_the_log_of_a_job_that_has_not_started_is_empty(api: Api) -> None:
    api.submit(required_gpus=4)
    waiting = api.submit(required_gpus=4)
    assert api.http.get(f"/api/v1/jobs/{waiting}/logs").text == ""


def test_secrets_in_the_environment_are_masked_in_every_answer_but_reach_the_job(api: Api) -> None:
    job = api.submit(env={"WANDB_API_KEY": "hunter2", "EPOCHS": 3})
    assert api.job(job)["env"] == {"WANDB_API_KEY": "********", "EPOCHS": "3"}
    api.wait(job, "running")
    [spec] = api.runtime.tasks()
    assert spec.env["WANDB_API_KEY"] == "hunter2"
    pages = [f"/api/v1/jobs/{job}", "/api/v1/jobs", "/jobs", f"/jobs/{job}", f"/api/v1/jobs/{job}/events", "/metrics"]
    assert not any("hunter2" in api.http.get(page).text for page in pages)


def test_prometheus_finds_its_metrics(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    text = api.http.get("/metrics").text
    for line in (
        'schedulearn_jobs{state="running"} 1.0',
        "schedulearn_jobs_submitted_total 1.0",
        'schedulearn_gpus{gpu_type="simulated",host="local",state="used"} 2.0',
        'schedulearn_gpus{gpu_type="simulated",host="local",state="free"} 2.0',
        "schedulearn_resizes_total 0.0",
    ):
        assert line in text
    assert "schedulearn_decision_seconds_count" in text


def test_hosts_and_gpus_show_who_holds_them(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    [host] = api.http.get("/api/v1/hosts").json()
    assert (host["id"], host["state"], host["reachable"]) == ("local", "active", True)
    assert [gpu["jobs"] for gpu in api.http.get("/api/v1/gpus").json()] == [[job], [job], [], []]
    totals = api.http.get("/api/v1/cluster").json()
    assert (totals["hosts"], totals["gpus"], totals["gpus_used"], totals["gpus_free"]) == (1, 4, 2, 2)
    assert totals["jobs"]["running"] == 1
    assert api.http.post("/api/v1/hosts/local/cordon").json()["state"] == "cordoned"
    assert api.http.get("/api/v1/cluster").json()["gpus_free"] == 0
    assert api.http.get("/api/v1/hosts/local").json()["state"] == "cordoned"
    assert api.http.post("/api/v1/hosts/local/uncordon").json()["state"] == "active"
    assert api.http.get("/api/v1/hosts/nowhere").status_code == 404


def test_the_policy_is_switched_by_one_put_while_jobs_run(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    answer = api.http.put("/api/v1/policy", json={"algorithm": "round-robin", "params": {"backfill": True}})
    assert answer.status_code == 200
    policy = api.http.get("/api/v1/policy").json()
    assert (policy["algorithm"], policy["params"], policy["problem"]) == ("round-robin", {"backfill": True}, "")
    assert {kind["name"] for kind in policy["available"]} >= {"fifo", "round-robin"}
    assert api.job(job)["state"] == "running"
    time.sleep(0.1)
    assert api.job(job)["attempt"] == 1


def test_a_job_that_runs_shows_the_gpu_time_that_it_has_taken_so_far(api: Api) -> None:
    job = api.submit(required_gpus=2)
    api.wait(job, "running")
    first = api.job(job)["gpu_seconds"]
    wait_for(lambda: api.job(job)["gpu_seconds"] > first, what="more of it")
    [listed] = api.http.get("/api/v1/jobs").json()["items"]
    assert listed["gpu_seconds"] > 0
    before = api.job(job)
    assert before["gpu_seconds"] == pytest.approx(2 * before["run_seconds"])
    api.runtime.finish(f"schedulearn-{job}-1-0")
    after = api.wait(job, "succeeded")
    assert after["gpu_seconds"] >= before["gpu_seconds"]
    assert api.job(job)["gpu_seconds"] == after["gpu_seconds"]


def test_a_log_that_is_not_kept_ends_and_hides_no_later_one(api: Api) -> None:
    job = api.submit(max_restarts=1)
    for attempt in (1, 2):
        wait_for(lambda: api.job(job)["attempt"] == attempt and api.job(job)["state"] == "running")  # noqa: B023
        api.write_log(job, b"attempt %d\n" % attempt, end=True, attempt=attempt)
        api.runtime.finish(f"schedulearn-{job}-{attempt}-0", 3)
    failed = api.wait(job, "failed")
    assert failed["retries"] == 1
    logs = LogStore(api.directory / "logs")
    url = f"/api/v1/jobs/{job}/logs"
    logs.empty(f"schedulearn-{job}-1-0")
    assert api.http.get(url, params={"follow": True}).text == "attempt 2\n"
    assert api.http.get(url, params={"follow": True, "offset": 10}).text == "attempt 2\n", "offsets stay what they were"
    for attempt in (1, 2):
        logs.delete(f"schedulearn-{job}-{attempt}-0")
    assert api.http.get(url, params={"follow": True}).text == ""


@pytest.mark.slow
def test_a_job_that_waits_for_its_next_try_says_so(api: Api) -> None:
    job = api.submit(max_restarts=9)
    for attempt in (1, 2, 3):
        wait_for(lambda: api.job(job)["attempt"] == attempt and api.job(job)["state"] == "running")  # noqa: B023
        api.runtime.finish(f"schedulearn-{job}-{attempt}-0", 3)
    waits = api.wait(job, "queued")
    assert waits["reason"] == "retry"
    assert waits["message"].startswith("The command ended with exit code 3. Try 3 of 9. It tries again in ")
    assert waits["not_before"] > waits["tasks"][-1]["finished_at"]


@pytest.mark.slow
def test_workers_under_horovod_wait_long_for_each_other_unless_the_job_says_otherwise(api: Api) -> None:
    name = "HOROVOD_GLOO_TIMEOUT_SECONDS"
    ours, own = api.submit(required_gpus=1), api.submit(required_gpus=1, env={name: "7"})
    original = api.submit(required_gpus=1, command="horovodrun -np 1 python train.py", launcher="none")
    other = api.submit(required_gpus=1, launcher="torchrun")
    for job in (ours, own, original, other):
        api.wait(job, "running")
    found = {spec.job_id: spec.env.get(name) for spec in api.runtime.tasks()}
    assert found == {ours: "300", own: "7", original: "300", other: None}


def test_a_job_says_how_often_it_was_interrupted(api: Api) -> None:
    job = api.submit(required_gpus=1, max_restarts=1)
    assert api.wait(job, "running")["interruptions"] == 0
    api.runtime.finish(f"schedulearn-{job}-1-0", code=3)
    again = wait_for(lambda: found if (found := api.job(job))["attempt"] == 2 else None)
    assert again["interruptions"] == 1
    [first] = [task for task in again["tasks"] if task["attempt"] == 1]
    spent = datetime.fromisoformat(first["finished_at"]) - datetime.fromisoformat(first["started_at"])
    assert again["repeated_seconds"] == pytest.approx(spent.total_seconds(), abs=0.01)


def test_all_jobs_get_the_variables_of_the_settings_and_a_name_for_their_runs(tmp_path: Path) -> None:
    of_lab = {"WANDB_BASE_URL": "https://wandb.lab", "HF_HOME": "/models"}
    with serve_api(tmp_path, job_env=of_lab) as api:
        plain = api.submit(required_gpus=1, name="plain", env={"HF_HOME": "/mine"})
        elastic = api.submit(required_gpus=1, elastic=True, family="cifar", env={"WANDB_NAME": "own"})
        found = {}
        for job in (plain, elastic):
            api.wait(job, "running")
            [found[job]] = [spec.env for spec in api.runtime.tasks() if spec.job_id == job]
        names = ("WANDB_BASE_URL", "HF_HOME", "WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_RUN_ID", "WANDB_RESUME")
        assert [found[plain].get(name) for name in names] == ["https://wandb.lab", "/mine", "plain", None, None, None]
        assert [found[elastic].get(name) for name in names] == [
            "https://wandb.lab", "/models", "own", "cifar", elastic, "allow",
        ]  # fmt: skip
