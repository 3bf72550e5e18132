"""A job whose image is fetched holds no GPU: others use them meanwhile, and it starts once its image is there."""

import time
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, SlowFetch, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.api.answers.job import EtaOut
from schedulearn.scheduler.core.job_image import layer_of, layered
from schedulearn.scheduler.core.needs import Image
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of


def new(name: str = "job", gpus: int = 1, **fields: Any) -> Any:
    """A job whose image no host has."""
    return spec(name, gpus, container_image="new", **fields)


def fetching(fetch: Any, host: str = "local") -> FakeRuntime:
    """A host that has `img`, and can fetch `new`."""
    return FakeRuntime(host, images={"img"}, fetchable={"new": fetch})


def codes(c: FakeCluster, job_id: str) -> list[str]:
    """What happened to a job, without repetitions."""
    with c.cluster.db.read() as db:
        found = [event.code for event in repository.list_events(db, job_id=job_id) if event.kind != "job.waiting"]
    return [code for code, before in zip(found, ["", *found], strict=False) if code != before]


def test_no_gpu_is_leased_while_an_image_is_fetched_and_then_the_job_starts(tmp_path: Path) -> None:
    fetch = SlowFetch(42.0)
    with FakeCluster(tmp_path, runtime=fetching(fetch)) as c:
        [job] = c.submit(new(gpus=4))
        wait_for(lambda: c.job(job).pull_percent == 42)
        row = c.job(job)
        assert (row.state, row.attempt, row.fetch_hosts, c.leases()) == ("pulling", 0, ["local"], [])
        assert row.message.startswith("Fetching new on local: layers; ")
        fetch.end()
        row = c.wait(job, "running")
        assert (row.pull_percent, row.fetch_hosts, len(c.leases())) == (None, [], 4)
        assert codes(c, job) == ["submitted", "image_pull", "placed", "container_running"]


def test_a_job_whose_image_is_there_is_never_pulling(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, runtime=FakeRuntime("local", images={"img"})) as c:
        [job] = c.submit()
        c.wait(job, "running")
        assert codes(c, job) == ["submitted", "placed", "container_running"]


def test_another_job_uses_the_gpu_meanwhile_and_the_first_comes_next(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, gpus=1, runtime=fetching(fetch)) as c:
        first, second, third = c.submit(new("first"), spec("second"), spec("third"))
        c.wait(second, "running")
        assert c.state(first) == "pulling"
        fetch.end()
        c.wait(first, "queued")
        assert c.job(first).message == "Its image is there. It waits for GPUs."
        wait_for(lambda: first in c.cluster.loop.waiting)
        c.runtime.finish(c.task(second))
        c.wait(first, "running")
        assert c.state(third) == "queued", "the order of submission holds again"


def test_jobs_of_one_missing_image_do_not_all_become_pulling_and_are_told_why_they_wait(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, gpus=2, runtime=fetching(fetch)) as c:
        jobs = c.submit(*(new() for _ in range(5)))
        other = c.submit(spec())[0]
        c.wait(other, "running")
        wait_for(lambda: {job: c.state(job) for job in jobs[:2]} == dict.fromkeys(jobs[:2], "pulling"))
        assert [c.state(job) for job in jobs[2:]] == ["queued"] * 3
        wait_for(lambda: c.cluster.loop.waiting[jobs[4]].code == "waiting_for_image")  # type: ignore[attr-defined]
        fetch.end()
        c.wait(jobs[0], "running")
        assert c.runtime.calls.count(("images.fetch", "new")) == 1


def test_an_image_that_cannot_be_had_fails_its_job_and_no_other(tmp_path: Path) -> None:
    runtime = fetching(ImageUnavailable("pull access denied for new"))
    with FakeCluster(tmp_path, runtime=runtime) as c:
        bad, good = c.submit(new(), spec())
        ended = c.wait(bad, "failed")
        assert (ended.reason, ended.message) == ("image_unavailable", "pull access denied for new")
        assert (ended.attempt, ended.gpu_seconds, ended.fetch_hosts) == (0, 0.0, [])
        c.wait(good, "running")
        assert len(c.leases()) == 1


def test_an_image_that_could_not_be_had_is_asked_for_again_by_the_next_job(tmp_path: Path) -> None:
    runtime = fetching(ImageUnavailable("there is no tag new"))
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [bad] = c.submit(new())
        c.wait(bad, "failed")
        runtime.images.fetchable["new"] = [FetchProgress(50.0, "half")]
        [good] = c.submit(new())
        c.wait(good, "running")


def test_a_fetch_that_fails_for_a_passing_cause_is_told_and_tried_again(tmp_path: Path) -> None:
    runtime = fetching(RuntimeFault("the registry is busy"))
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [job] = c.submit(new())
        wait_for(lambda: c.job(job).message == "the registry is busy Trying again.")
        assert (c.state(job), c.leases()) == ("pulling", [])
        runtime.images.fetchable["new"] = [FetchProgress(50.0, "half")]
        c.wait(job, "running")


def test_a_job_is_cancelled_at_once_while_it_pulls_and_the_fetch_ends_with_the_last_that_needs_it(
    tmp_path: Path,
) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, gpus=2, runtime=fetching(fetch)) as c:
        first, second = c.submit(new(), new())
        for job in (first, second):
            c.wait(job, "pulling")
        assert fetch.begun.wait(5)
        c.cluster.service.cancel(first)
        assert c.state(first) == "cancelled"
        c.poke()
        c.wait(second, "pulling")
        assert not fetch.given_up.is_set()
        c.cluster.service.cancel(second)
        assert fetch.given_up.wait(5)


def test_a_fetch_that_somebody_asked_for_goes_on_without_jobs(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, runtime=fetching(fetch)) as c:
        [job] = c.submit(new())
        c.wait(job, "pulling")
        c.cluster.agents["local"].fetch("new")
        c.cluster.service.cancel(job)
        decided = c.cluster.loop.stats.decisions
        wait_for(lambda: c.poke() and c.cluster.loop.stats.decisions > decided + 2)
        assert not fetch.given_up.is_set()
        fetch.end()
        wait_for(lambda: c.cluster.agents["local"].has(Image("new")))


def test_a_service_that_starts_again_goes_on_with_the_fetch_where_it_was_although_the_gpus_are_taken(
    tmp_path: Path,
) -> None:
    fetch = SlowFetch()
    runtime = fetching(fetch)
    with FakeCluster(tmp_path, gpus=1, runtime=runtime) as c:
        job, other = c.submit(new(), spec())
        c.wait(other, "running")
        c.wait(job, "pulling")
    runtime._closed = False
    again = runtime.images.fetchable["new"] = SlowFetch()
    with FakeCluster(tmp_path, gpus=1, runtime=runtime) as c:
        assert again.begun.wait(10)
        assert (c.state(job), c.job(job).fetch_hosts) == ("pulling", ["local"])
        again.end()
        c.wait(job, "queued")
        runtime.finish(c.task(other))
        c.wait(job, "running")


def test_a_job_goes_elsewhere_when_the_host_that_fetches_for_it_goes_away(tmp_path: Path) -> None:
    here, there = SlowFetch(), SlowFetch()
    others = {"h2": fetching(there, "h2")}
    with FakeCluster(tmp_path, runtime=fetching(here), others=others) as c:
        c.cluster.service.set_policy("fifo")
        c.add("h2")
        [job] = c.submit(new())
        assert here.begun.wait(5)
        c.cluster.fleet.set_state("local", "cordoned")
        assert there.begun.wait(5)
        wait_for(lambda: c.job(job).fetch_hosts == ["h2"])
        assert here.given_up.wait(5), "nobody needs it there any more"
        there.end()
        c.wait(job, "running")


def test_a_job_starts_where_its_image_is_rather_than_where_it_would_be_fetched(tmp_path: Path) -> None:
    others = {"h2": FakeRuntime("h2", images={"img", "new"})}
    never = SlowFetch()
    with FakeCluster(tmp_path, runtime=fetching(never), others=others) as c:
        c.add("h2")
        jobs = c.submit(new(gpus=3), spec(gpus=3), new(gpus=1))
        for job in jobs:
            c.wait(job, "running")
        with c.cluster.db.read() as db:
            homes = {task.job_id: task.host_id for task in tasks_of(db, jobs)}
        assert [homes[job] for job in jobs] == ["h2", "local", "h2"]


def test_a_gang_waits_until_all_of_its_hosts_have_the_image(tmp_path: Path) -> None:
    fetches = {name: SlowFetch() for name in ("local", "h2", "h3")}
    others = {name: fetching(fetches[name], name) for name in ("h2", "h3")}
    with FakeCluster(tmp_path, runtime=fetching(fetches["local"]), others=others) as c:
        c.add("h2", "h3")
        [gang] = c.submit(new(gpus=8))
        c.wait(gang, "pulling")
        hosts = c.job(gang).fetch_hosts
        assert len(hosts) == 2
        fetches[hosts[0]].end()
        wait_for(lambda: c.cluster.agents[hosts[0]].has(Image("new")))
        decided = c.cluster.loop.stats.decisions
        wait_for(lambda: c.poke() and c.cluster.loop.stats.decisions > decided + 4)
        assert (c.state(gang), c.leases(), c.job(gang).fetch_hosts) == ("pulling", [], [hosts[1]])
        fetches[hosts[1]].end()
        wait_for(lambda: len(c.leases()) == 8)


def test_an_image_that_was_removed_from_a_host_gives_the_gpus_back_until_it_is_there_again(tmp_path: Path) -> None:
    fetch = SlowFetch()
    runtime = fetching(fetch)
    assert runtime.images.present is not None
    runtime.images.present.add("new")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [first] = c.submit(new(max_restarts=1))
        c.wait(first, "running")
        runtime.images.present.discard("new")
        runtime.finish(c.task(first), 1)
        wait_for(lambda: c.state(first) == "pulling")
        assert c.leases() == []
        assert "image_gone" in codes(c, first)
        fetch.end()
        wait_for(lambda: c.state(first) == "running")
        assert c.job(first).losses == 1


def test_a_job_that_pulled_with_gpus_under_the_version_before_goes_on_without(tmp_path: Path) -> None:
    """As the migration leaves such a row: `starting`, with a task that never ran."""
    fetch = SlowFetch()
    runtime = fetching(fetch)
    assert runtime.images.present is not None
    runtime.images.present.add("new")
    runtime.fail_next("start", RuntimeFault("busy"), times=100)
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [job] = c.submit(new())
        c.wait(job, "starting")
        wait_for(lambda: "busy" in c.job(job).message)
    runtime._closed = False
    runtime._failures.clear()
    runtime.images.present.discard("new")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        c.wait(job, "pulling")
        assert c.leases() == []
        fetch.end()
        c.wait(job, "running")


@pytest.mark.slow
def test_jobs_that_take_turns_do_not_wait_for_one_that_pulls(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, gpus=1, runtime=fetching(fetch)) as c:
        c.cluster.service.set_policy("gandiva", "default", {"quantum": 1})
        slow, job = c.submit(new(), spec())
        c.wait(job, "running")
        c.wait(slow, "pulling")
        [task] = c.runtime.observe()
        assert not task.paused
        fetch.end()
        wait_for(lambda: len(c.runtime.tasks()) == 2, what="both on the GPU, in turns")


def test_shared_gpus_are_leased_only_once_the_image_is_there(tmp_path: Path) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, gpus=1, runtime=fetching(fetch)) as c:
        c.cluster.service.set_policy("fifo", "default", {"jobs_per_gpu": 2})
        slow, job = c.submit(new(), spec())
        c.wait(job, "running")
        c.wait(slow, "pulling")
        assert len(c.leases()) == 1
        fetch.end()
        c.wait(slow, "running")
        assert len(c.leases()) == 2
        c.runtime.finish(c.task(slow))


def test_a_predicted_start_counts_what_is_left_of_the_fetch_or_says_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.scheduler.core.planning.fetching._SHORT_S", 0.0)
    fetch = SlowFetch(1.0)
    with FakeCluster(tmp_path, runtime=fetching(fetch)) as c:
        [job] = c.submit(new())
        wait_for(lambda: c.job(job).pull_percent == 1)
        assert "the time left is not known yet" in c.job(job).message
        c.cluster.forecaster.update()
        eta = c.cluster.forecaster.etas.jobs[job]
        assert (eta.start, eta.end, eta.awaits_image) == (None, None, True)
        seen = EtaOut.of(eta, time.time() + 9)
        assert (seen.not_before, seen.awaits_image) == (None, True)
        preview, _ = c.cluster.forecaster.predict_job(new())
        assert preview.awaits_image
        fetch.percent = 4.0
        wait_for(lambda: c.job(job).pull_percent == 4)
        assert " left." in c.job(job).message
        c.cluster.forecaster.update()
        eta = c.cluster.forecaster.etas.jobs[job]
        began = c.cluster.agents["local"].fetch_under_way(Image("new"))
        assert began is not None
        assert eta.start is not None
        assert eta.start - c.cluster.forecaster.etas.at == pytest.approx(
            24 * (c.cluster.forecaster.etas.at - began.began_at), rel=0.2
        )
        fetch.end()


@pytest.mark.parametrize("ends_well", [True, False])
def test_gpu_time_and_the_time_limit_do_not_run_while_an_image_is_fetched(tmp_path: Path, ends_well: bool) -> None:
    fetch = SlowFetch()
    with FakeCluster(tmp_path, runtime=fetching(fetch)) as c:
        [job] = c.submit(new(max_duration=0.2))
        wait_for(lambda: c.job(job).pull_percent == 10)
        began = c.job(job).submitted_at
        wait_for(lambda: c.cluster.loop.clock() - began > 0.4)
        assert c.state(job) == "pulling"
        fetch.end(None if ends_well else ImageUnavailable("no"))
        ended = c.wait(job, "timeout", "failed")
        assert ended.state == ("timeout" if ends_well else "failed")
        assert (ended.gpu_seconds > 0) == ends_well


def test_a_job_that_asks_for_it_has_its_image_pulled_again_once_on_its_host(tmp_path: Path) -> None:
    runtime = FakeRuntime("local", images={"img"})
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [plain] = c.submit()
        c.wait(plain, "running")
        assert ("images.fetch", "img") not in runtime.calls
        [job] = c.submit(spec(pull="always"))
        c.wait(job, "running")
        assert codes(c, job) == ["submitted", "image_pull", "placed", "container_running"]
        assert runtime.calls.count(("images.fetch", "img")) == 1


def test_with_requirements_their_image_is_pulled_before_they_are_installed_over_it(tmp_path: Path) -> None:
    image = layered("img", layer_of(["einops"]))
    runtime = FakeRuntime("local", images={"img", image})
    with FakeCluster(tmp_path, runtime=runtime) as c:
        [job] = c.submit(spec(pull="always", requirements=["einops"]))
        c.wait(job, "running")
        assert [call for call in runtime.calls if call[0] == "images.fetch"][:2] == [
            ("images.fetch", "img"),
            ("images.fetch", image),
        ]
        assert runtime.images.layers == {image: ("einops",)}


def test_an_image_that_is_no_more_in_its_registry_ends_the_job_that_asked_for_it_and_no_other(tmp_path: Path) -> None:
    runtime = FakeRuntime("local", images={"img"})
    with FakeCluster(tmp_path, gpus=1, runtime=runtime) as c:
        runtime.fail_next("images.fetch", ImageUnavailable("image 'img' was not found"))
        [job] = c.submit(spec(pull="always"))
        assert c.wait(job, "failed").reason == "image_unavailable"
        [plain] = c.submit()
        c.wait(plain, "running")
